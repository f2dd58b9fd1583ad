//! Deliveries to webhooks: what is sent, how it is signed, and to where it may go. When and how often is
//! decided in [`crate::loops`] and the domain.

mod courier;
mod payload;
mod reachable;
mod sender;
mod signature;
mod url;

pub(crate) use courier::{Courier, Errand, Report};
pub(crate) use payload::test_payload;
pub(crate) use reachable::Reach;
pub use reachable::Target;
pub(crate) use sender::{Parcel, Sender};
pub(crate) use url::check_url;
