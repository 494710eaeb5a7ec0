import java.lang.management.ManagementFactory;
import java.nio.file.*;
import java.util.*;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.search.*;
import org.apache.lucene.store.*;
import org.apache.lucene.util.Version;

/**
 * Measures Lucene as engines.py measures the other engines: the same arguments, the same output. It
 * searches for at least WARM_UP seconds before it measures, so that the JIT compiler is done.
 */
public class Lucene {
  static final long WARM_UP = 10;

  /** A token stream of words between blanks. */
  static final class Words extends TokenStream {
    final CharTermAttribute term = addAttribute(CharTermAttribute.class);
    String text;
    int at;

    Words of(String text) {
      this.text = text;
      return this;
    }

    @Override
    public void reset() {
      at = 0;
    }

    @Override
    public boolean incrementToken() {
      if (at >= text.length()) return false;
      int end = text.indexOf(' ', at);
      if (end < 0) end = text.length();
      clearAttributes();
      term.append(text, at, end);
      at = end + 1;
      return true;
    }
  }

  static IndexSearcher build(List<String> docs, Path dir) throws Exception {
    FieldType type = new FieldType();
    type.setTokenized(true);
    type.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
    Directory files = new MMapDirectory(dir);
    var config = new IndexWriterConfig().setRAMBufferSizeMB(1024);
    Words words = new Words();
    try (IndexWriter w = new IndexWriter(files, config)) {
      for (String d : docs) w.addDocument(List.of(new Field("text", words.of(d), type)));
      w.forceMerge(1); // document numbers are line numbers
    }
    IndexSearcher searcher = new IndexSearcher(DirectoryReader.open(files));
    searcher.setSimilarity(new org.apache.lucene.search.similarities.BM25Similarity(1.2f, 0.75f));
    return searcher;
  }

  static List<Integer> search(IndexSearcher s, String query) throws Exception {
    var q = new BooleanQuery.Builder();
    for (String t : query.split(" ")) q.add(new TermQuery(new Term("text", t)), BooleanClause.Occur.SHOULD);
    List<Integer> hits = new ArrayList<>(10);
    // The threshold of 10 lets the search skip documents that cannot be among the best.
    for (ScoreDoc d : s.search(q.build(), new TopScoreDocCollectorManager(10, 10)).scoreDocs) hits.add(d.doc);
    return hits;
  }

  public static void main(String[] args) throws Exception {
    List<String> docs = Files.readAllLines(Path.of(args[1])), queries = Files.readAllLines(Path.of(args[2]));
    int passes = Integer.parseInt(args[3]);
    var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long start = process.getProcessCpuTime();
    IndexSearcher s = build(docs, Path.of(args[4]));
    long built = process.getProcessCpuTime() - start;
    long until = System.nanoTime() + WARM_UP * 1_000_000_000L;
    do {
      for (String q : queries) search(s, q);
    } while (System.nanoTime() < until);
    long[] best = new long[queries.size()];
    Arrays.fill(best, Long.MAX_VALUE);
    var threads = ManagementFactory.getThreadMXBean();
    List<List<Integer>> hits = new ArrayList<>(Collections.nCopies(best.length, null));
    for (int pass = 0; pass < passes; pass++) {
      for (int i = 0; i < best.length; i++) {
        long begin = threads.getCurrentThreadCpuTime();
        hits.set(i, search(s, queries.get(i)));
        best[i] = Math.min(best[i], threads.getCurrentThreadCpuTime() - begin);
      }
    }
    System.out.printf(
        "{\"version\": \"%s, Java %s\", \"build\": %d, \"best\": %s, \"hits\": %s}%n",
        Version.LATEST, Runtime.version().feature(), built, Arrays.toString(best), hits);
  }
}
