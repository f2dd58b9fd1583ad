//! What lies in the bucket, as the server itself stores it: tests look there for what nobody should have left.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Set in the mode of a directory.
const DIRECTORY: u64 = 1 << 31;

/// The paths of all files below a directory of the server's own file system.
pub(crate) fn files_below(port: u16, directory: &str) -> Vec<String> {
    let mut files = Vec::new();
    for (path, is_directory) in entries(port, directory) {
        if is_directory {
            files.extend(files_below(port, &path));
        } else {
            files.push(path);
        }
    }
    files
}

fn entries(port: u16, directory: &str) -> Vec<(String, bool)> {
    let text = ask(port, directory).unwrap_or_default();
    let pieces = text.split("\"FullPath\":\"").skip(1);
    let entries = pieces.filter_map(|piece| {
        let (path, rest) = piece.split_once('"')?;
        let (_, mode) = rest.split_once("\"Mode\":")?;
        let digits: String = mode.chars().take_while(char::is_ascii_digit).collect();
        Some((path.to_owned(), digits.parse::<u64>().ok()? & DIRECTORY != 0))
    });
    entries.collect()
}

fn ask(port: u16, directory: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let request = format!(
        "GET {directory}/?limit=10000 HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
