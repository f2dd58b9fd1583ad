//! A way to a server on which a large transfer comes to a stop, so that something can be done in the middle of it.
//!
//! Every connection takes what it takes up to a bound in one direction; then it stands still until the valve is opened.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::wait::until;

/// Bytes of one connection that pass while the valve is closed.
const BOUND: usize = 1 << 20;

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Valve {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_open: Mutex<bool>,
    opened: Condvar,
    standing: AtomicUsize,
    ended: AtomicBool,
}

impl Valve {
    /// A closed one to the server on this port.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let own = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.ended.load(Ordering::Acquire) {
                    return;
                }
                // Nobody there: the client sees that its connection is closed.
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let state = Arc::clone(&shared);
                    thread::spawn(move || pass(from, to, &state));
                }
            }
        });
        Self { port: own, state }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until so many large transfers have come to a stop.
    pub fn await_stops(&self, count: usize) {
        until("transfers have come to a stop", Duration::from_secs(60), || {
            self.state.standing.load(Ordering::Acquire) >= count
        });
    }

    /// Lets everything pass from now on.
    pub fn open(&self) {
        *self.state.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.state.opened.notify_all();
    }
}

impl Drop for Valve {
    fn drop(&mut self) {
        self.open();
        self.state.ended.store(true, Ordering::Release);
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Passes bytes on until either side ends; then both have ended.
fn pass(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let (mut piece, mut passed) = (vec![0; 64 << 10], 0);
    while let Ok(read) = from.read(&mut piece) {
        if read == 0 {
            break;
        }
        passed += read;
        if passed > BOUND {
            state.standing.fetch_add(1, Ordering::AcqRel);
            let mut is_open = state.is_open.lock().unwrap_or_else(PoisonError::into_inner);
            while !*is_open {
                is_open = state.opened.wait(is_open).unwrap_or_else(PoisonError::into_inner);
            }
            drop(is_open);
            state.standing.fetch_sub(1, Ordering::AcqRel);
        }
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        // It may have ended already.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}
