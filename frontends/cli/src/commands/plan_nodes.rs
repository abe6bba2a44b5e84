//! `pantile plan --nodes`: a plan as partial sums of nodes, and the bytes on each link between
//! them.
//!
//! A plan is a sum of products, so it can be cut by node: each node adds up its own reads, and sums
//! are added on the way.

use crate::args;
use crate::describe;
use crate::failure::Failure;
use crate::render::table::Table;
use crate::sets;
use crate::terminal::Terminal;
use pantile::gf::Gf;
use pantile::{CellIndex, Code, Plan};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Largest number of a node.
const MOST: u32 = 9999;

/// The node of each column.
pub struct Nodes {
    of_column: Vec<u32>,
    element: u64,
}

#[derive(Serialize)]
pub struct NodesJson {
    element_bytes: u64,
    links: Vec<LinkJson>,
    busiest_port: PortsJson,
}

/// Bytes that a node sends for a stripe, by three methods.
#[derive(Serialize)]
struct LinkJson {
    node: u32,
    columns: Vec<usize>,
    reads: usize,
    /// Bytes of all elements that the node reads.
    whole: u64,
    /// Bytes of the node's sums, one for each wanted element, or of its reads if these are fewer.
    sums: u64,
    /// Bytes of the sums over all nodes up to this one, which it sends to the next node.
    chain: u64,
}

/// Bytes of the busiest port, in or out.
#[derive(Serialize)]
struct PortsJson {
    whole: u64,
    sums: u64,
    chain: u64,
    /// The busiest port if each node computes one part of every sum from the elements of all nodes.
    shared: u64,
}

/// Reads the size of an element.
pub fn element(text: &str) -> Result<u64, String> {
    let bytes = args::size(text)?;
    match (1..=1 << 40).contains(&bytes) {
        true => Ok(bytes),
        false => Err("an element has 1 byte to 1T".into()),
    }
}

impl Nodes {
    /// Reads `each`, or the nodes of columns such as `0-3=0,4-7=1`; other columns are nodes of
    /// their own.
    pub fn parse(text: &str, element: u64, code: &Code) -> Result<Nodes, Failure> {
        let named = match text {
            "each" => BTreeMap::new(),
            list => args::of_columns("--nodes", "node", MOST, list, code)?,
        };
        let mut next = named.values().max().map_or(0, |most| most + 1);
        let of_column = (0..code.columns())
            .map(|column| {
                named.get(&column).copied().unwrap_or_else(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        Ok(Nodes { of_column, element })
    }

    pub fn answer(&self, code: &Code, plan: &Plan) -> NodesJson {
        let sums = sums_of_reads(plan);
        let mut reads: BTreeMap<u32, Vec<CellIndex>> = BTreeMap::new();
        for &cell in &plan.reads {
            reads.entry(self.of_column[code.column_of(cell)]).or_default().push(cell);
        }
        let mut begun: BTreeSet<usize> = BTreeSet::new();
        let mut links = Vec::new();
        for (&node, cells) in &reads {
            let of_node = |sum: &BTreeMap<CellIndex, Gf>| cells.iter().any(|cell| sum.contains_key(cell));
            let touched: Vec<usize> = (0..sums.len()).filter(|&output| of_node(&sums[output])).collect();
            begun.extend(&touched);
            let columns: BTreeSet<usize> = cells.iter().map(|&cell| code.column_of(cell)).collect();
            links.push(LinkJson {
                node,
                columns: columns.into_iter().collect(),
                reads: cells.len(),
                whole: cells.len() as u64 * self.element,
                sums: cells.len().min(touched.len()) as u64 * self.element,
                chain: begun.len() as u64 * self.element,
            });
        }
        let busiest_port = self.busiest(&links, plan.outputs.len() as u64);
        NodesJson { element_bytes: self.element, links, busiest_port }
    }

    fn busiest(&self, links: &[LinkJson], outputs: u64) -> PortsJson {
        let nodes = links.len().max(1) as u64;
        let whole: u64 = links.iter().map(|link| link.whole).sum();
        let shared = links.iter().map(|link| {
            // Bytes that the node sends: its elements except the part that it sums itself, and its
            // part of each sum.
            let sends = link.whole * (nodes - 1) / nodes + outputs * self.element / nodes;
            sends.max((whole - link.whole) / nodes)
        });
        PortsJson {
            whole,
            sums: links.iter().map(|link| link.sums).sum(),
            chain: links.iter().map(|link| link.chain).max().unwrap_or(0),
            shared: shared.max().unwrap_or(0).max(outputs * self.element),
        }
    }

    pub fn report(&self, code: &Code, plan: &Plan, terminal: &Terminal) -> String {
        let answer = self.answer(code, plan);
        let mut out = format!(
            "\n{}\n\n",
            terminal.bold(format!("Partial sums, elements of {}", sets::bytes(self.element)))
        );
        let mut table = Table::new(&[">node", "columns", ">reads", ">whole", ">sums", ">chain"]);
        for link in &answer.links {
            table.row(vec![
                link.node.to_string(),
                describe::ranges(&link.columns),
                link.reads.to_string(),
                sets::bytes(link.whole),
                sets::bytes(link.sums),
                sets::bytes(link.chain),
            ]);
        }
        out.push_str(&table.render(terminal));
        let ports = &answer.busiest_port;
        let _ = writeln!(
            out,
            "\nEach node sends what it reads (whole), its own sums, or the sums so far to the next node \
             (chain).\nBusiest port: whole {}, sums {}, chain {}; {} where each node makes a part of all sums.",
            sets::bytes(ports.whole),
            sets::bytes(ports.sums),
            sets::bytes(ports.chain),
            sets::bytes(ports.shared)
        );
        out
    }
}

/// Returns each output as a sum of reads; a cell that is itself read is its own sum.
fn sums_of_reads(plan: &Plan) -> Vec<BTreeMap<CellIndex, Gf>> {
    let mut known: BTreeMap<CellIndex, BTreeMap<CellIndex, Gf>> =
        plan.reads.iter().map(|&cell| (cell, BTreeMap::from([(cell, Gf(1))]))).collect();
    for step in &plan.steps {
        let mut sum: BTreeMap<CellIndex, Gf> = BTreeMap::new();
        for &(cell, coefficient) in step.terms.iter() {
            for (&read, &inner) in &known[&cell] {
                *sum.entry(read).or_insert(Gf(0)) += coefficient * inner;
            }
        }
        sum.retain(|_, coefficient| coefficient.0 != 0);
        known.insert(step.target, sum);
    }
    plan.outputs.iter().map(|output| known[output].clone()).collect()
}
