//! What travels with a job: its standard input and its directory.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;

use muster_tests::until;

use crate::harness::{BOUND, Finished, Up};

fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Bytes that cannot be made smaller or mistaken for others.
fn noise(length: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Runs with this file as the standard input.
fn with_file(up: &Up, arguments: &[&str], file: &File) -> Finished {
    let output = up.command(arguments).stdin(Stdio::from(file.try_clone().unwrap())).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Finished { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_file_is_sent_from_where_it_stands_and_is_not_used_up() {
    let up = Up::start();
    write(up.directory.path(), "words", "skipped\nb\na\n");
    let mut file = File::open(up.directory.path().join("words")).unwrap();
    file.seek(SeekFrom::Start(8)).unwrap();
    for _ in 0..2 {
        assert_eq!(with_file(&up, &["run", "--", "sort"], &file).ok().stdout, "a\nb\n");
    }
    assert_eq!(file.stream_position().unwrap(), 8, "a loop that reads the file goes on with it");
    let empty = File::open("/dev/null").unwrap();
    assert_eq!(with_file(&up, &["run", "--", "wc", "-c"], &empty).ok().line().trim(), "0");
}

#[test]
fn a_pipe_is_sent_when_that_is_said() {
    let up = Up::start();
    let sent = up.run_with_input(&["run", "--stdin", "-", "--", "cat"], "from a pipe\n").ok();
    assert_eq!((sent.stdout.as_str(), sent.stderr.as_str()), ("from a pipe\n", ""));
    let unsaid = up.run_with_input(&["run", "--", "wc", "-c"], "from a pipe\n").ok();
    assert_eq!(unsaid.line().trim(), "0");
    let nothing = up.run_with_input(&["run", "--stdin", "-", "--", "wc", "-c"], "").ok();
    assert_eq!(nothing.line().trim(), "0");
}

#[test]
fn every_attempt_reads_from_the_beginning_and_every_element_reads_all() {
    let up = Up::start();
    write(up.directory.path(), "in", "line\n");
    let script = "cat; test -e second || { touch second; exit 1; }";
    let twice = up.run(&["run", "--max-retries", "2", "--stdin", "in", "--", "sh", "-c", script]).ok();
    assert_eq!(twice.stdout, "line\nline\n");
    let array = up.submit(&["--array", "0-2", "--stdin", "in", "--", "cat"]);
    up.run(&["wait", &array]).ok();
    let jobs = up.run(&["ls", "--all", "--json"]).ok().json();
    let ids: Vec<&str> = jobs.as_array().unwrap().iter().filter_map(|job| job["id"].as_str()).collect();
    for id in ids {
        assert!(up.run(&["logs", id]).ok().stdout.contains("line\n"), "{id}");
    }
    let gang = up.run(&["run", "--gang", "2", "--stdin", "in", "--", "cat"]).ok();
    assert_eq!(gang.stdout.matches("line").count(), 2, "{gang:?}");
}

#[test]
fn a_standard_input_that_is_too_large_is_refused_with_the_limit() {
    let up = Up::start_configured("stdin_limit = \"1K\"");
    write(up.directory.path(), "in", [b'x'; 2_000]);
    let named = up.run(&["run", "--stdin", "in", "--", "cat"]);
    let piped = up.run_with_input(&["run", "--stdin", "-", "--", "cat"], &"x".repeat(2_000));
    for refused in [named, piped] {
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains("1.0K") && refused.stderr.contains("--upload"), "{refused:?}");
    }
    assert!(up.run(&["ls", "--all", "--json"]).ok().json().as_array().unwrap().is_empty());
}

#[test]
fn a_job_runs_in_a_copy_of_what_was_sent() {
    let up = Up::start();
    let root = up.directory.path().join("app");
    write(&root, "src/main.txt", "hello\n");
    write(&root, "run.sh", "#!/bin/sh\ncat src/main.txt link; ls -A; echo changed > src/main.txt\n");
    write(&root, "secret.log", "not this\n");
    write(&root, ".gitignore", "*.log\n");
    write(&root, ".git/config", "nor this\n");
    write(&root, "large", noise(3_000_000, 1));
    fs::create_dir(root.join("empty")).unwrap();
    symlink("src/main.txt", root.join("link")).unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let run = || up.run(&["run", "--upload", "app", "--", "./run.sh"]).ok();
    let first = run();
    assert_eq!(first.stdout, "hello\nhello\n.gitignore\nempty\nlarge\nlink\nrun.sh\nsrc\n");
    assert!(first.stderr.contains("sent"), "{first:?}");
    let second = run();
    assert_eq!(second.stdout, first.stdout, "each attempt has a copy of its own");
    assert!(second.stderr.contains("sent before"), "{second:?}");
    // Only what changed is sent.
    write(&root, "src/main.txt", "bye\n");
    let third = run();
    assert!(
        third.stdout.starts_with("bye\nbye\n") && third.stderr.contains("the rest was there"),
        "{third:?}"
    );
    let below = up.run(&["run", "--upload", "app", "-C", "src", "--", "cat", "main.txt"]).ok();
    assert_eq!(below.stdout, "bye\n");
    let outside = up.run(&["run", "--upload", "app", "-C", "/tmp", "--", "pwd"]);
    assert!(outside.code() == 2 && outside.stderr.contains("a directory in it"), "{outside:?}");
    let rooms = up.directory.path().join("data/worker/rooms");
    until("the copies are gone", BOUND, || fs::read_dir(&rooms).unwrap().next().is_none());
}

#[test]
fn ten_thousand_small_files_are_few_requests() {
    let up = Up::start();
    let root = up.directory.path().join("many");
    for number in 0..10_000 {
        write(&root, &format!("{}/{number}", number % 100), format!("file {number}\n"));
    }
    let count = up.run(&["run", "--upload", "many", "--", "sh", "-c", "find . -type f | wc -l"]).ok();
    assert_eq!(count.line().trim(), "10000");
    let chunks = fs::read_dir(up.directory.path().join("data/blobs/uploads/shared/chunks")).unwrap().count();
    assert!(chunks <= 4, "{chunks}");
}

#[test]
fn a_link_that_leads_out_is_refused_by_name() {
    let up = Up::start();
    let root = up.directory.path().join("app");
    fs::create_dir(&root).unwrap();
    symlink("/etc/passwd", root.join("out")).unwrap();
    let refused = up.run(&["run", "--upload", "app", "--", "true"]);
    assert_eq!(refused.code(), 2, "{refused:?}");
    assert!(refused.stderr.contains("\"out\"") && refused.stderr.contains(".musterignore"), "{refused:?}");
}

#[test]
fn steps_of_a_pipeline_name_directories_and_inputs_beside_the_file() {
    let up = Up::start();
    let root = up.directory.path();
    write(root, "flow/app/say.txt", "from the upload\n");
    write(root, "flow/words", "b\na\n");
    let text = "defaults: {upload: app}\nsteps:\n\
                - {name: copy, run: cat say.txt}\n\
                - {name: sorted, run: sort, upload: '', stdin_file: words}\n\
                - {name: literal, run: cat, upload: '', stdin: \"typed\\n\"}\n";
    write(root, "flow/p.yaml", text);
    let id = up.run(&["submit", "flow/p.yaml", "--wait"]).ok().stdout.lines().next().unwrap().to_owned();
    let jobs = up.run(&["ls", "--all", "--json"]).ok().json();
    for (step, output) in [("copy", "from the upload\n"), ("sorted", "a\nb\n"), ("literal", "typed\n")] {
        let job = jobs.as_array().unwrap().iter().find(|job| job["step"] == step).unwrap();
        assert_eq!(up.run(&["logs", job["id"].as_str().unwrap()]).ok().stdout, output, "{id}");
    }
    write(root, "flow/wrong.yaml", "steps:\n- {name: a, run: x, upload: nowhere}\n");
    let wrong = up.run(&["submit", "flow/wrong.yaml"]);
    assert!(wrong.code() != 0 && wrong.stderr.contains("step a"), "{wrong:?}");
}

#[test]
fn a_job_finds_what_another_one_left() {
    let up = Up::start();
    let first = up.submit(&["--", "sh", "-c", "cd $MUSTER_ARTIFACTS; mkdir d; echo one > a; echo two > d/b"]);
    let script = "cat $MUSTER_INPUTS/a $MUSTER_INPUTS/in/b";
    let (file, folder) = (format!("{first}:a"), format!("{}:d:in/", &first[..12]));
    let run = ["run", "--input", &file, "--input", &folder, "--", "sh", "-c", script];
    assert_eq!(up.run(&run).ok().stdout, "one\ntwo\n");
    let jobs = up.run(&["ls", "--all", "--json"]).ok().json();
    let second = jobs.as_array().unwrap().iter().find(|job| job["id"] != first.as_str()).unwrap();
    assert_eq!(second["depends_on"].as_array().unwrap().len(), 1, "it waits for the job by itself");
    let shown = up.run(&["show", second["id"].as_str().unwrap()]).ok().stdout;
    assert!(shown.contains(&format!("input:      a of {first}\n")), "{shown}");
    assert!(shown.contains(&format!("d of {first}, as in/")), "{shown}");
    let failed = up.run(&["run", "--input", &format!("{first}:none"), "--", "true"]);
    assert!(failed.code() != 0 && failed.stderr.contains("left no artifact \"none\""), "{failed:?}");
    let unknown = up.run(&["run", "--input", ":x", "--", "true"]);
    assert!(unknown.code() == 2 && unknown.stderr.contains("JOB:PATH"), "{unknown:?}");
}

#[test]
fn inputs_of_a_pipeline_are_checked_with_their_place() {
    let up = Up::start();
    let text = "steps:\n- {name: extract, run: x}\n- {name: load, run: x, needs: [], inputs: [{from: extract, path: a}]}\n";
    write(up.directory.path(), "p.yaml", text);
    let refused = up.run(&["submit", "--check", "p.yaml"]);
    assert!(refused.code() != 0, "{refused:?}");
    assert!(
        refused.stderr.contains("p.yaml:3:") && refused.stderr.contains("which it does not need"),
        "{refused:?}"
    );
}
