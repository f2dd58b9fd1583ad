//! The flags about deliveries to webhooks.

use std::time::Duration;

use clap::{ArgAction, Args};
use muster_domain::retry::Backoff;
use muster_domain::{DeliveryPolicy, Span};

use super::values::positive;
use crate::config::WebhookConfig;
use crate::webhooks::Target;

/// How deliveries to webhooks behave.
#[derive(Debug, Clone, Args)]
pub struct WebhookArgs {
    /// Attempts to deliver an event to a webhook before it becomes a dead letter
    #[arg(long, value_name = "N", env = "MUSTER_WEBHOOK_ATTEMPTS", default_value = "10",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub webhook_attempts: u32,
    /// The pause after the first failed attempt; it doubles with each further one
    #[arg(long, value_name = "TIME", env = "MUSTER_WEBHOOK_FIRST_PAUSE", default_value = "1s", value_parser = positive)]
    pub webhook_first_pause: Duration,
    /// The longest pause between two attempts
    #[arg(long, value_name = "TIME", env = "MUSTER_WEBHOOK_LONGEST_PAUSE", default_value = "5m", value_parser = positive)]
    pub webhook_longest_pause: Duration,
    /// How long a receiver may take to answer
    #[arg(long, value_name = "TIME", env = "MUSTER_WEBHOOK_TIMEOUT", default_value = "10s", value_parser = positive)]
    pub webhook_timeout: Duration,
    /// Whether webhooks may lead to this machine and to private networks: true or false [default: to this machine, as
    /// long as the scheduler listens on loopback only]
    #[arg(long, value_name = "BOOL", env = "MUSTER_WEBHOOK_ALLOW_PRIVATE", action = ArgAction::Set)]
    pub webhook_allow_private: Option<bool>,
    /// A network such as 10.1.0.0/16, an address or a host that webhooks may lead to although it is private; may be
    /// repeated
    #[arg(long, value_name = "TARGET", env = "MUSTER_WEBHOOK_ALLOW", value_delimiter = ',')]
    pub webhook_allow: Vec<Target>,
}

impl WebhookArgs {
    pub(super) fn config(&self) -> WebhookConfig {
        let usual = DeliveryPolicy::default();
        let backoff = Backoff {
            initial: Span::from(self.webhook_first_pause),
            cap: Span::from(self.webhook_longest_pause),
            ..usual.backoff
        };
        WebhookConfig {
            policy: DeliveryPolicy { backoff, max_attempts: self.webhook_attempts },
            timeout: self.webhook_timeout,
            allow_private: self.webhook_allow_private,
            allow: self.webhook_allow.clone(),
        }
    }
}
