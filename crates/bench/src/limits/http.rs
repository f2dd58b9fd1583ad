//! Requests per second of a bare axum handler: JSON in, JSON out, no store behind it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use axum::{Json, Router, routing};
use muster_protocol::SubmitRequest;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::http::Connection;

/// Requests answered per second over `connections`, each with one request under way.
pub(crate) fn requests_per_second(connections: usize, duration: Duration) -> Result<f64> {
    let (report, reported) = mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    thread::scope(|scope| {
        let server = scope.spawn(move || serve(&report, stopped));
        let rate = reported.recv().context("the bare server did not start");
        let rate = rate.and_then(|address| load(address, connections, duration));
        // The server may have failed already; its own result says so.
        let _ = stop.send(());
        server.join().map_err(|_| anyhow!("the bare server panicked"))??;
        rate
    })
}

/// One thread, as in a scheduler that shares a small machine with its jobs.
fn serve(report: &mpsc::Sender<SocketAddr>, stopped: oneshot::Receiver<()>) -> Result<()> {
    let echo = |Json(job): Json<SubmitRequest>| async { Json(job) };
    let router = Router::new().route("/jobs", routing::post(echo));
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        report.send(listener.local_addr()?)?;
        tokio::select! {
            ended = async { axum::serve(listener, router).await } => ended.context("the bare server"),
            _ = stopped => Ok(()),
        }
    })
}

fn load(address: SocketAddr, connections: usize, duration: Duration) -> Result<f64> {
    let body = serde_json::to_vec(&SubmitRequest { argv: vec!["/bin/true".into()], ..Default::default() })?;
    let over = AtomicBool::new(false);
    let begin = Instant::now();
    let requests = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..connections).map(|_| scope.spawn(|| post_until(address, &body, &over))).collect();
        thread::sleep(duration);
        over.store(true, Ordering::Relaxed);
        let mut requests = 0;
        for client in clients {
            requests += client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        anyhow::Ok(requests)
    })?;
    Ok(requests as f64 / begin.elapsed().as_secs_f64())
}

fn post_until(address: SocketAddr, body: &[u8], over: &AtomicBool) -> Result<u64> {
    let mut connection = Connection::open(address)?;
    let mut requests = 0;
    while !over.load(Ordering::Relaxed) {
        connection.post("/jobs", body)?.success()?;
        requests += 1;
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_handler_answers() {
        assert!(requests_per_second(2, Duration::from_millis(50)).unwrap() > 0.0);
    }
}
