//! Dependency graphs of a submission: names resolved, cycles found and spelled out.

use std::collections::HashMap;

use crate::rejection::Rejection;

/// Orders the nodes of a batch so that each comes after those of the batch it depends on.
///
/// `edges[i]` lists the nodes that node `i` waits for. A cycle is refused with its path, by name.
pub fn order(names: &[String], edges: &[Vec<usize>]) -> Result<Vec<usize>, Rejection> {
    let mut marks = vec![Mark::New; names.len()];
    let mut sorted = Vec::with_capacity(names.len());
    for start in 0..names.len() {
        visit(start, names, edges, &mut marks, &mut sorted)?;
    }
    Ok(sorted)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Finished,
}

/// Depth first without recursion, so that a chain of any length is safe.
fn visit(
    start: usize,
    names: &[String],
    edges: &[Vec<usize>],
    marks: &mut [Mark],
    sorted: &mut Vec<usize>,
) -> Result<(), Rejection> {
    if marks[start] != Mark::New {
        return Ok(());
    }
    let mut path = vec![(start, 0_usize)];
    marks[start] = Mark::OnPath;
    while let Some((node, next)) = path.last_mut() {
        let Some(&target) = edges[*node].get(*next) else {
            marks[*node] = Mark::Finished;
            sorted.push(*node);
            path.pop();
            continue;
        };
        *next += 1;
        match marks[target] {
            Mark::Finished => {}
            Mark::New => {
                marks[target] = Mark::OnPath;
                path.push((target, 0));
            }
            Mark::OnPath => return Err(cycle(&path, target, names)),
        }
    }
    Ok(())
}

fn cycle(path: &[(usize, usize)], target: usize, names: &[String]) -> Rejection {
    let from = path.iter().position(|(node, _)| *node == target).unwrap_or(0);
    let mut walk: Vec<String> = path[from..].iter().map(|(node, _)| names[*node].clone()).collect();
    walk.push(names[target].clone());
    Rejection::DependencyCycle { path: walk }
}

/// Maps the local names of a batch to positions; a name used twice is refused.
pub fn index_references<'a>(
    references: impl IntoIterator<Item = (usize, &'a str)>,
) -> Result<HashMap<&'a str, usize>, Rejection> {
    let mut positions = HashMap::new();
    for (position, name) in references {
        if positions.insert(name, position).is_some() {
            return Err(Rejection::DuplicateReference { name: name.to_owned() });
        }
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &[&[usize]]) -> Result<Vec<usize>, String> {
        let names: Vec<String> = (0..edges.len()).map(|i| ((b'A' + i as u8) as char).to_string()).collect();
        let edges: Vec<Vec<usize>> = edges.iter().map(|e| e.to_vec()).collect();
        order(&names, &edges).map_err(|rejection| rejection.to_string())
    }

    #[test]
    fn graphs_without_cycles_are_ordered() {
        assert_eq!(check(&[]), Ok(vec![]));
        assert_eq!(check(&[&[]]), Ok(vec![0]));
        assert_eq!(check(&[&[1], &[2], &[]]), Ok(vec![2, 1, 0])); // linear
        assert_eq!(check(&[&[], &[0], &[0], &[1, 2]]), Ok(vec![0, 1, 2, 3])); // diamond
        assert_eq!(check(&[&[1, 2], &[], &[]]), Ok(vec![1, 2, 0])); // several
    }

    #[test]
    fn cycles_are_spelled_out() {
        assert_eq!(check(&[&[0]]), Err("cycle detected: A->A".to_owned()));
        assert_eq!(check(&[&[1], &[0]]), Err("cycle detected: A->B->A".to_owned()));
        assert_eq!(check(&[&[1], &[2], &[0]]), Err("cycle detected: A->B->C->A".to_owned()));
        assert_eq!(check(&[&[1], &[2], &[1]]), Err("cycle detected: B->C->B".to_owned()));
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_needs_no_deep_stack() {
        let names: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
        let edges: Vec<Vec<usize>> =
            (0..100_000).map(|i| if i + 1 < 100_000 { vec![i + 1] } else { vec![] }).collect();
        assert_eq!(order(&names, &edges).unwrap().len(), 100_000);
    }

    #[test]
    fn a_reference_is_used_once() {
        assert!(index_references([(0, "a"), (1, "b")]).is_ok());
        assert!(index_references([(0, "a"), (1, "a")]).is_err());
    }
}
