//! Commits per second of PostgreSQL with its default durability.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde::Serialize;
use tokio::runtime;
use tokio_postgres::{Client, NoTls};

const CLIENTS: usize = 8;
const GROUP: i32 = 500;

/// Rows per second: one row in each transaction from one and from eight clients, 500 rows from one client.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Commits {
    pub(crate) single: f64,
    pub(crate) eight_clients: f64,
    pub(crate) grouped: f64,
}

/// Measures for `duration` each, in a table of its own in the database at `url`.
pub(crate) fn commits(url: &str, duration: Duration) -> Result<Commits> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let clients = connect(url).await?;
        let first = clients.first().context("no client")?;
        first.batch_execute("CREATE TABLE limit_work (id BIGSERIAL PRIMARY KEY, body TEXT NOT NULL)").await?;
        let single = single_rows(first, duration).await?;
        let eight_clients = from_all(&clients, duration).await?;
        let grouped = grouped_rows(first, duration).await?;
        first.batch_execute("DROP TABLE limit_work").await?;
        Ok(Commits { single, eight_clients, grouped })
    })
}

async fn connect(url: &str) -> Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.context("connecting to PostgreSQL")?;
        tokio::spawn(connection);
        clients.push(client);
    }
    Ok(clients)
}

async fn single_rows(client: &Client, duration: Duration) -> Result<f64> {
    let insert = client.prepare("INSERT INTO limit_work (body) VALUES ($1)").await?;
    let body = "x".repeat(100);
    let begin = Instant::now();
    let mut rows = 0_u32;
    while begin.elapsed() < duration {
        client.execute(&insert, &[&body]).await?;
        rows += 1;
    }
    Ok(f64::from(rows) / begin.elapsed().as_secs_f64())
}

async fn from_all(clients: &[Client], duration: Duration) -> Result<f64> {
    let rates = clients.iter().map(|client| single_rows(client, duration));
    Ok(try_join_all(rates).await?.into_iter().sum())
}

async fn grouped_rows(client: &Client, duration: Duration) -> Result<f64> {
    let sql = "INSERT INTO limit_work (body) SELECT $1 FROM generate_series(1, $2)";
    let insert = client.prepare(sql).await?;
    let body = "x".repeat(100);
    let begin = Instant::now();
    let mut rows = 0_i32;
    while begin.elapsed() < duration {
        client.execute(&insert, &[&body, &GROUP]).await?;
        rows += GROUP;
    }
    Ok(f64::from(rows) / begin.elapsed().as_secs_f64())
}
