//! The connection to the streams of a container, before it is started: pipes, or a terminal.
//!
//! Guarantee: nothing that the container writes is missed, from its first byte on.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::query_parameters::{AttachContainerOptionsBuilder, ResizeContainerTTYOptionsBuilder};
use futures::stream;
use tokio::time::timeout;

use super::Order;
use super::input::Input;
use super::output::Pieces;
use crate::containers::own_terminal::{NEVER_TYPED, OwnTerminal};
use crate::containers::raw_stream::{self, Piece};

/// How long one small request may take.
const REQUEST: Duration = Duration::from_secs(20);

/// The streams of a container.
pub(super) struct Attached {
    pub(super) pieces: Pieces,
    pub(super) input: Input,
}

/// Attaches to a container that was made.
pub(super) async fn attach(
    client: &Docker,
    order: &Order,
    id: &str,
    stdin: Option<File>,
    terminal: Option<&Arc<OwnTerminal>>,
) -> Result<Attached, Error> {
    if let Some(terminal) = terminal {
        let keys = NEVER_TYPED.replace('^', "%5E").replace(',', "%2C");
        let path = format!("/containers/{id}/attach?stream=1&stdin=1&stdout=1&stderr=1&detachKeys={keys}");
        let opened = raw_stream::open(&order.spec.reach, &path, "").await;
        let stream = opened.map_err(|reason| Error::IOError { err: io::Error::other(reason) })?;
        let (output, into) = raw_stream::split(stream, true);
        let pieces = stream::unfold(output, |mut output| async move {
            let (Piece::Output(message) | Piece::Errors(message)) = output.next().await?;
            Some((Ok(LogOutput::Console { message }), output))
        });
        let input = Input::typed(Arc::clone(terminal), into);
        return Ok(Attached { pieces: Box::pin(pieces), input });
    }
    let options = AttachContainerOptionsBuilder::new().stdout(true).stderr(true).stream(true);
    let options = options.stdin(stdin.is_some()).build();
    let attached = client.attach_container(id, Some(options)).await?;
    Ok(Attached { pieces: attached.output, input: Input::waiting(stdin, attached.input) })
}

/// Gives the terminal of a container the size of ours.
pub(super) async fn resize(client: &Docker, id: &str, terminal: &OwnTerminal) {
    let Some((columns, rows)) = terminal.size() else { return };
    let options = ResizeContainerTTYOptionsBuilder::new().w(columns.into()).h(rows.into()).build();
    // A terminal of another size is no reason to end.
    let _ = timeout(REQUEST, client.resize_container_tty(id, options)).await;
}
