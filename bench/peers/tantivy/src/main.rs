//! Measures tantivy: engine skip|all DOCS QUERIES PASSES DIR. With skip, searches are
//! tantivy's usual ones, which skip blocks of postings. With all, searches also count
//! matches, so they read all postings; that is faster for long queries. The other
//! arguments and the output are those of engines.py. Times are CPU times of the thread,
//! without a binding.

use std::{env, error::Error, fs, time::Duration};

use serde_json::json;
use tantivy::collector::{Count, TopDocs};
use tantivy::merge_policy::NoMergePolicy;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, IndexWriter, Searcher, TantivyDocument, Term};

/// Memory of the writer in bytes: enough for one segment.
const MEMORY: usize = 3 << 30;

fn cpu(clock: libc::clockid_t) -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(clock, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn build(docs: &str) -> tantivy::Result<(Searcher, Field)> {
    let words = TextFieldIndexing::default()
        .set_tokenizer("whitespace")
        .set_index_option(IndexRecordOption::WithFreqs);
    let mut schema = Schema::builder();
    let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(words));
    let index = Index::create_in_ram(schema.build());
    let mut writer: IndexWriter = index.writer_with_num_threads(1, MEMORY)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for line in docs.lines() {
        let mut doc = TantivyDocument::default();
        doc.add_text(text, line);
        writer.add_document(doc)?;
    }
    writer.commit()?;
    let searcher = index.reader()?.searcher();
    assert_eq!(searcher.segment_readers().len(), 1, "document numbers are line numbers");
    Ok((searcher, text))
}

fn search(searcher: &Searcher, text: Field, query: &str, all: bool) -> tantivy::Result<Vec<u32>> {
    let terms = query.split(' ').map(|w| {
        let term = Term::from_field_text(text, w);
        let query: Box<dyn Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
        (Occur::Should, query)
    });
    let query = BooleanQuery::new(terms.collect());
    let best = TopDocs::with_limit(10).order_by_score();
    let top = if all {
        searcher.search(&query, &(best, Count))?.0
    } else {
        searcher.search(&query, &best)?
    };
    Ok(top.into_iter().map(|(_, at)| at.doc_id).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let all = args[1] == "all";
    let docs = fs::read_to_string(&args[2])?;
    let queries = fs::read_to_string(&args[3])?;
    let passes: usize = args[4].parse()?;
    let start = cpu(libc::CLOCK_PROCESS_CPUTIME_ID);
    let (searcher, text) = build(&docs)?;
    let built = cpu(libc::CLOCK_PROCESS_CPUTIME_ID) - start;
    let queries: Vec<&str> = queries.lines().collect();
    let mut best = vec![Duration::MAX; queries.len()];
    let mut hits = vec![Vec::new(); queries.len()];
    for _ in 0..passes {
        for (i, query) in queries.iter().enumerate() {
            let start = cpu(libc::CLOCK_THREAD_CPUTIME_ID);
            hits[i] = search(&searcher, text, query, all)?;
            best[i] = best[i].min(cpu(libc::CLOCK_THREAD_CPUTIME_ID) - start);
        }
    }
    let best: Vec<u64> = best.iter().map(|t| t.as_nanos() as u64).collect();
    let version = tantivy::version_string();
    println!("{}", json!({"version": version, "build": built.as_nanos() as u64, "best": best, "hits": hits}));
    Ok(())
}
