//! A way to one of several schedulers, as a load balancer is: each new connection goes to the one chosen last.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Switch {
    port: u16,
    target: Arc<AtomicU16>,
    ended: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Switch {
    /// Begins with the scheduler on this port.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let own = listener.local_addr().expect("it is bound").port();
        let switch = Self {
            port: own,
            target: Arc::new(AtomicU16::new(port)),
            ended: Arc::default(),
            open: Arc::default(),
        };
        let (target, ended, open) =
            (Arc::clone(&switch.target), Arc::clone(&switch.ended), Arc::clone(&switch.open));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                // Nobody there: the client sees that its connection is closed.
                let Ok(server) = TcpStream::connect(("127.0.0.1", target.load(Ordering::Acquire))) else {
                    continue;
                };
                let _ = join(&client, &server, &open);
            }
        });
        switch
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends all connections; new ones go to the scheduler on this port.
    pub fn turn_to(&self, port: u16) {
        self.target.store(port, Ordering::Release);
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.turn_to(0);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(client: &TcpStream, server: &TcpStream, open: &Mutex<Vec<TcpStream>>) -> io::Result<()> {
    let pairs = [(client.try_clone()?, server.try_clone()?), (server.try_clone()?, client.try_clone()?)];
    open.lock().unwrap_or_else(PoisonError::into_inner).extend([client.try_clone()?, server.try_clone()?]);
    for (mut from, mut to) in pairs {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}
