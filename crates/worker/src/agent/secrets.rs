//! Opening the secrets of a job that was claimed.
//!
//! Guarantee: a job starts with all of its secrets or not at all; what is said about one that cannot be opened names the secret
//! and never its value.

use muster_protocol::{Job, SecretUse};
use muster_seal::{Context, KeyPair, open};

use super::agent_loop::Agent;
use crate::keeper::SecretGrant;

impl Agent {
    /// Opens the secrets that the job asks for, or says why it cannot run here.
    pub(super) fn open_secrets(&self, job: &Job) -> Result<Vec<SecretGrant>, String> {
        if !job.secrets.is_empty() && !self.executor.hands_secrets {
            return Err("the keeper of this worker is of an older version and cannot hand over secrets; \
                        it is replaced when it has no jobs and the worker starts again"
                .to_owned());
        }
        if job.pty.is_some() && !self.executor.gives_terminals {
            return Err("the keeper of this worker is of an older version and cannot give jobs terminals; \
                        it is replaced when it has no jobs and the worker starts again"
                .to_owned());
        }
        opened(job, &self.secret_keys)
    }
}

fn opened(job: &Job, keys: &[KeyPair]) -> Result<Vec<SecretGrant>, String> {
    job.secrets.iter().map(|wish| grant(job, wish, keys)).collect()
}

pub(super) fn grant(job: &Job, wish: &SecretUse, keys: &[KeyPair]) -> Result<SecretGrant, String> {
    let name = &wish.name;
    let Some(sealed) = job.sealed.iter().find(|sealed| sealed.name == *name) else {
        return Err(format!("there is no secret {name:?} any more"));
    };
    if sealed.queue.is_some() && sealed.queue != job.queue_name {
        return Err(format!("the secret {name:?} is of another queue than the job"));
    }
    let context = Context {
        name: name.clone(),
        queue: sealed.queue.clone(),
        owner: sealed.owner.clone(),
        version: sealed.version,
    };
    let value = open(&sealed.boxes, &context, keys).map_err(|error| error.to_string())?;
    if !wish.file && value.bytes().contains(&0) {
        return Err(format!(
            "the secret {name:?} has a zero byte in it, which no variable can hold; ask for it as a file"
        ));
    }
    let variable = wish.variable.clone().unwrap_or_else(|| name.clone());
    Ok(SecretGrant { variable, file: wish.file, value })
}

#[cfg(test)]
mod tests {
    use muster_protocol::SealedSecret;
    use muster_seal::{SecretValue, seal};

    use super::*;

    fn sealed(name: &str, value: &[u8], queue: Option<&str>, pair: &KeyPair) -> SealedSecret {
        let queue = queue.map(str::to_owned);
        let context = Context { name: name.into(), queue: queue.clone(), owner: None, version: 1 };
        let boxes = seal(&SecretValue::new(value.to_vec()), &context, &[pair.public().clone()]).unwrap();
        SealedSecret { name: name.into(), queue, owner: None, version: 1, boxes }
    }

    fn job(sealed: Vec<SealedSecret>, file: bool) -> Job {
        let wish = SecretUse { name: "token".into(), file, variable: Some("TOKEN".into()) };
        Job { secrets: vec![wish], sealed, queue_name: Some("ml".into()), ..Job::default() }
    }

    #[test]
    fn a_job_gets_what_it_asks_for_or_a_reason() {
        let (pair, other) = (KeyPair::from_private([1; 32]), KeyPair::from_private([2; 32]));
        let own = std::slice::from_ref(&pair);
        let good = job(vec![sealed("token", b"sesame", Some("ml"), &pair)], false);
        let granted = opened(&good, own).unwrap();
        assert_eq!((granted[0].variable.as_str(), granted[0].value.bytes()), ("TOKEN", &b"sesame"[..]));
        assert!(opened(&Job::default(), own).unwrap().is_empty());

        let mut swapped = sealed("other", b"sesame", Some("ml"), &pair);
        swapped.name = "token".into();
        let zero = sealed("token", b"ses\0ame", None, &pair);
        let cases = [
            (job(Vec::new(), false), "no secret \"token\" any more"),
            (job(vec![sealed("token", b"sesame", Some("hr"), &pair)], false), "of another queue"),
            (job(vec![sealed("token", b"sesame", None, &other)], false), "is sealed to"),
            (job(vec![swapped], false), "swapped or copied"),
            (job(vec![zero.clone()], false), "ask for it as a file"),
        ];
        for (job, words) in cases {
            let reason = opened(&job, own).unwrap_err();
            assert!(reason.contains(words) && !reason.contains("sesame"), "{reason}");
        }
        assert!(opened(&job(vec![zero], true), own).is_ok());
    }
}
