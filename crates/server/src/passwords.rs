//! Passwords: how they are kept and compared, and how often somebody may guess.
//!
//! Guarantees: argon2id with a salt of its own for each; a comparison takes the same time whether or not the user exists; a
//! user, and an address, that was wrong too often waits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use muster_domain::Secret;
use tokio::sync::Semaphore;

use crate::error::ApiError;

/// Bytes of a password.
pub const PASSWORD: std::ops::RangeInclusive<usize> = 8..=1024;

/// Comparisons at the same time: each takes 19 MiB.
const AT_ONCE: usize = 2;
/// Wrong guesses within [`WINDOW`] after which a user, or an address, waits.
const BY_USER: u32 = 5;
const BY_ADDRESS: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// Users and addresses that are remembered.
const REMEMBERED: usize = 100_000;

/// What is kept of a password.
pub fn hash(password: &str, salt: [u8; 16]) -> Result<Secret, String> {
    if !PASSWORD.contains(&password.len()) {
        return Err(format!("a password has {} to {} bytes", PASSWORD.start(), PASSWORD.end()));
    }
    let hashed = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
    hashed.map(|hash| Secret::new(hash.to_string())).map_err(|error| error.to_string())
}

/// Compared with where there is no password, so that nobody learns by the time which users exist.
static NOBODY: LazyLock<Option<Secret>> = LazyLock::new(|| hash("a password of nobody", [0; 16]).ok());

fn fits(password: &str, kept: Option<&Secret>) -> bool {
    let Some(against) = kept.or(NOBODY.as_ref()) else { return false };
    let Ok(parsed) = PasswordHash::new(against.expose()) else { return false };
    let same = Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok();
    same && kept.is_some()
}

/// Who guessed wrong lately.
#[derive(Debug)]
pub(crate) struct Guesses {
    wrong: Mutex<HashMap<Guesser, (u32, Instant)>>,
    room: Semaphore,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Guesser {
    User(String),
    Address(IpAddr),
}

impl Guesser {
    const fn limit(&self) -> u32 {
        match self {
            Self::User(_) => BY_USER,
            Self::Address(_) => BY_ADDRESS,
        }
    }
}

impl Default for Guesses {
    fn default() -> Self {
        Self { wrong: Mutex::default(), room: Semaphore::new(AT_ONCE) }
    }
}

impl Guesses {
    /// Whether the password is that of the user. `kept` is what is kept of it.
    pub(crate) async fn check(
        &self,
        user: &str,
        address: Option<IpAddr>,
        password: String,
        kept: Option<Secret>,
    ) -> Result<bool, ApiError> {
        let by_address = address.map(|address| Guesser::Address(address.to_canonical()));
        let guessers: Vec<Guesser> = [Guesser::User(user.to_owned())].into_iter().chain(by_address).collect();
        if let Some(wait) = self.wait(&guessers, Instant::now()) {
            return Err(ApiError::too_many_guesses(wait));
        }
        let _room = self.room.acquire().await.map_err(|_| ApiError::shutting_down())?;
        let compared = tokio::task::spawn_blocking(move || fits(&password, kept.as_ref())).await;
        let right = compared.map_err(|_| ApiError::internal())?;
        self.note(guessers, right, Instant::now());
        Ok(right)
    }

    /// How long one of them has to wait.
    fn wait(&self, guessers: &[Guesser], now: Instant) -> Option<Duration> {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |guesser: &Guesser| {
            let (count, since) = wrong.get(guesser)?;
            let left = WINDOW.checked_sub(now.duration_since(*since))?;
            (*count >= guesser.limit() && !left.is_zero()).then_some(left)
        };
        guessers.iter().filter_map(over).max()
    }

    fn note(&self, guessers: Vec<Guesser>, right: bool, now: Instant) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= REMEMBERED {
            wrong.retain(|_, (_, since)| now.duration_since(*since) < WINDOW);
        }
        for guesser in guessers {
            if right {
                // An address may try other users; only the user is cleared.
                if matches!(guesser, Guesser::User(_)) {
                    wrong.remove(&guesser);
                }
                continue;
            }
            let (count, since) = wrong.entry(guesser).or_insert((0, now));
            if now.duration_since(*since) >= WINDOW {
                (*count, *since) = (0, now);
            }
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_kept_as_a_hash_with_its_salt() {
        let kept = hash("correct horse", [1; 16]).unwrap();
        assert!(kept.expose().starts_with("$argon2id$") && !kept.expose().contains("horse"));
        assert_ne!(kept, hash("correct horse", [2; 16]).unwrap());
        assert!(fits("correct horse", Some(&kept)));
        assert!(!fits("correct horsf", Some(&kept)));
        assert!(!fits("a password of nobody", None));
        assert!(hash("short", [1; 16]).is_err());
    }

    #[test]
    fn who_is_wrong_too_often_waits() {
        let guesses = Guesses::default();
        let (ann, now) = (vec![Guesser::User("ann".to_owned())], Instant::now());
        for _ in 0..BY_USER {
            assert_eq!(guesses.wait(&ann, now), None);
            guesses.note(ann.clone(), false, now);
        }
        assert_eq!(guesses.wait(&ann, now), Some(WINDOW));
        assert_eq!(guesses.wait(&[Guesser::User("bob".to_owned())], now), None);
        assert_eq!(guesses.wait(&ann, now + WINDOW), None);
        guesses.note(ann.clone(), true, now);
        assert_eq!(guesses.wait(&ann, now), None);
    }
}
