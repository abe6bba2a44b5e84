//! The part of `ceph osd tree -f json` that states the number of OSDs, their size, and the numbers
//! of hosts and racks.

use super::LEN_BYTES_MAX;
use crate::durability::Domains;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::marker::PhantomData;

/// The most nodes of a tree, and the most children of all nodes together: ten times the OSDs of the
/// largest clusters.
pub const NODES_MAX: usize = 200_000;

/// Reason why a text is no tree, or lacks the requested buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// The text has more than [`LEN_BYTES_MAX`] bytes.
    TooLong,
    /// The text is not JSON of the shape that Ceph writes.
    Shape(String),
    /// The tree has this many nodes, more than `NODES_MAX`.
    TooManyNodes(usize),
    /// The nodes have this many children together, more than `NODES_MAX`.
    TooManyChildren(usize),
    /// The tree has no OSD with a weight.
    NoOsd,
    /// No bucket of this type contains such an OSD.
    NoBucket(&'static str),
}

impl fmt::Display for TreeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::TooLong => {
                write!(out, "it has more than {LEN_BYTES_MAX} bytes, the most of a tree that is read")
            }
            TreeError::Shape(error) => {
                write!(out, "it is not what 'ceph osd tree -f json' writes: {error}")
            }
            TreeError::TooManyNodes(nodes) => {
                write!(out, "it has {nodes} nodes, and at most {NODES_MAX} are read")
            }
            TreeError::TooManyChildren(children) => {
                write!(out, "its nodes have {children} children, and at most {NODES_MAX} are read")
            }
            TreeError::NoOsd => {
                write!(out, "no OSD with a CRUSH weight lies in it; give all of 'ceph osd tree -f json'")
            }
            TreeError::NoBucket(what) => write!(out, "no {what} in it has an OSD; choose another --domain"),
        }
    }
}

impl std::error::Error for TreeError {}

/// The numbers of nodes and of their children, counted before any of them is kept in memory.
#[derive(Deserialize)]
struct Counted {
    nodes: Tally,
}

/// The number of nodes in a list, and the number of their children.
#[derive(Default)]
struct Tally {
    len: usize,
    within: usize,
}

#[derive(Deserialize)]
struct CountedNode {
    #[serde(default)]
    children: Length,
}

#[derive(Default)]
struct Length(usize);

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tally, D::Error> {
        let mut tally = Tally::default();
        each(from, |node: CountedNode| {
            tally.len += 1;
            tally.within += node.children.0;
        })?;
        Ok(tally)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
        let mut len = 0;
        each(from, |_: IgnoredAny| len += 1)?;
        Ok(Length(len))
    }
}

/// Passes the elements of a list to `take`, one by one.
fn each<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    take: impl FnMut(T),
) -> Result<(), D::Error> {
    struct Each<T, F>(F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
        type Value = ();

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element()? {
                (self.0)(element);
            }
            Ok(())
        }
    }

    from.deserialize_seq(Each(take, PhantomData))
}

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: i64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    children: Vec<i64>,
    crush_weight: Option<f64>,
}

/// Numbers of a cluster's OSDs, hosts and racks, and the size of its disks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tree {
    /// OSDs of the tree that have a weight, so that they receive data.
    pub osds: usize,
    /// The mean of their weights, which Ceph sets to their TiB.
    pub mean_tib: f64,
    /// Hosts that contain such an OSD.
    pub hosts: usize,
    /// Racks that contain such an OSD.
    pub racks: usize,
}

impl Tree {
    /// Reads a tree; other fields of its nodes are skipped.
    pub fn parse(text: &[u8]) -> Result<Tree, TreeError> {
        if text.len() > LEN_BYTES_MAX {
            return Err(TreeError::TooLong);
        }
        let shape = |error: serde_json::Error| TreeError::Shape(error.to_string());
        let Counted { nodes: Tally { len, within } } = serde_json::from_slice(text).map_err(shape)?;
        if len > NODES_MAX {
            return Err(TreeError::TooManyNodes(len));
        }
        if within > NODES_MAX {
            return Err(TreeError::TooManyChildren(within));
        }
        let Nodes { nodes } = serde_json::from_slice(text).map_err(shape)?;
        let weight = |node: &Node| node.crush_weight.filter(|weight| weight.is_finite() && *weight > 0.0);
        let osds: HashMap<i64, f64> = nodes
            .iter()
            .filter(|node| node.kind == "osd")
            .filter_map(|node| Some((node.id, weight(node)?)))
            .collect();
        if osds.is_empty() {
            return Err(TreeError::NoOsd);
        }
        // From the OSDs up to the root; a cycle of buckets is visited once.
        let mut parents: HashMap<i64, Vec<i64>> = HashMap::new();
        for node in &nodes {
            node.children.iter().for_each(|&child| parents.entry(child).or_default().push(node.id));
        }
        let mut above: HashSet<i64> = HashSet::new();
        let mut open: Vec<i64> = osds.keys().copied().collect();
        while let Some(id) = open.pop() {
            let unseen = parents.get(&id).into_iter().flatten().filter(|&&parent| above.insert(parent));
            open.extend(unseen);
        }
        let count = |kind: &str| {
            let of_kind = nodes.iter().filter(|node| node.kind == kind && above.contains(&node.id));
            of_kind.map(|node| node.id).collect::<HashSet<i64>>().len()
        };
        Ok(Tree {
            mean_tib: osds.values().sum::<f64>() / osds.len() as f64,
            osds: osds.len(),
            hosts: count("host"),
            racks: count("rack"),
        })
    }

    /// Returns the hosts or racks as failure domains.
    pub fn domains(&self, what: &'static str, lost_per_year: f64) -> Result<Domains, TreeError> {
        let count = if what == "rack" { self.racks } else { self.hosts };
        match count {
            0 => Err(TreeError::NoBucket(what)),
            count => Ok(Domains { what, count, lost_per_year }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = r#"{"nodes":[
        {"id":-1,"name":"default","type":"root","type_id":11,"children":[-9,-8]},
        {"id":-9,"name":"r1","type":"rack","type_id":3,"children":[-2,-3]},
        {"id":-8,"name":"r2","type":"rack","type_id":3,"children":[-4]},
        {"id":-7,"name":"empty","type":"host","type_id":1,"children":[]},
        {"id":-2,"name":"a","type":"host","type_id":1,"pool_weights":{},"children":[1,0]},
        {"id":-3,"name":"b","type":"host","type_id":1,"children":[2]},
        {"id":-4,"name":"c","type":"host","type_id":1,"children":[3]},
        {"id":0,"device_class":"hdd","name":"osd.0","type":"osd","crush_weight":1.0,"status":"up","reweight":1},
        {"id":1,"name":"osd.1","type":"osd","crush_weight":2.0},
        {"id":2,"name":"osd.2","type":"osd","crush_weight":3.0},
        {"id":3,"name":"osd.3","type":"osd","crush_weight":0}],"stray":[{"id":7,"name":"osd.7","type":"osd","crush_weight":9}]}"#;

    #[test]
    fn children_are_counted_as_nodes_are() {
        let of = |children: usize| {
            let list = vec!["7"; children].join(",");
            let node = r#"{"id":0,"type":"osd","crush_weight":1.0}"#;
            format!(r#"{{"nodes":[{node},{{"id":-1,"type":"host","children":[{list}]}}]}}"#)
        };
        assert!(Tree::parse(of(NODES_MAX).as_bytes()).is_ok());
        let found = Tree::parse(of(NODES_MAX + 1).as_bytes());
        assert_eq!(found, Err(TreeError::TooManyChildren(NODES_MAX + 1)));
    }

    #[test]
    fn osds_with_a_weight_and_what_holds_them_are_counted() {
        let tree = Tree::parse(TREE.as_bytes()).expect("a tree");
        assert_eq!(tree, Tree { osds: 3, mean_tib: 2.0, hosts: 2, racks: 1 });
        assert_eq!(tree.domains("host", 0.001).expect("hosts").count, 2);
        let flat = TREE.replace("\"rack\"", "\"row\"");
        let flat = Tree::parse(flat.as_bytes()).expect("a tree");
        assert_eq!(flat.domains("rack", 0.001), Err(TreeError::NoBucket("rack")));
    }

    #[test]
    fn a_text_without_a_tree_is_refused() {
        for text in ["", "{", "[]", "{}", "{\"nodes\":7}", "{\"nodes\":[{\"id\":\"x\",\"type\":\"osd\"}]}"] {
            assert!(matches!(Tree::parse(text.as_bytes()), Err(TreeError::Shape(_))), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(Tree::parse(deep.as_bytes()), Err(TreeError::Shape(_))));
        assert_eq!(Tree::parse(b"{\"nodes\":[]}"), Err(TreeError::NoOsd));
        let odd = r#"{"nodes":[{"id":0,"type":"osd","crush_weight":-1},{"id":1,"type":"osd","crush_weight":1e308}]}"#;
        assert_eq!(Tree::parse(odd.as_bytes()).map(|tree| tree.osds), Ok(1));
        let circle = r#"{"nodes":[{"id":-1,"type":"host","children":[-2,0]},{"id":-2,"type":"rack","children":[-1]},
            {"id":0,"type":"osd","crush_weight":1}]}"#;
        let circle = Tree::parse(circle.as_bytes()).expect("a circle is no reason to stop");
        assert_eq!((circle.hosts, circle.racks), (1, 1));
        let many = format!("{{\"nodes\":[{}]}}", vec!["{\"id\":0,\"type\":\"x\"}"; NODES_MAX + 1].join(","));
        assert_eq!(Tree::parse(many.as_bytes()), Err(TreeError::TooManyNodes(NODES_MAX + 1)));
        assert_eq!(Tree::parse(&vec![b' '; LEN_BYTES_MAX + 1]), Err(TreeError::TooLong));
    }
}
