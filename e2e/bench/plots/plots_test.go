package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	docs    = "../../../website/content/docs"
	results = "../../../website/bench.tsv"
)

// TestPage checks that the page and the chart are those of the results that are checked in.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	chart, err := os.ReadFile(filepath.Join(docs, "performance.svg"))
	if err != nil {
		t.Fatal(err)
	}
	wantPage, wantChart, err := generate(results, string(page))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != wantPage || string(chart) != wantChart {
		t.Error("performance.md or performance.svg differs from website/bench.tsv: run make plots")
	}
}

func TestShare(t *testing.T) {
	for _, tt := range []struct {
		target, measured string
		share            float64
		atMost, ok       bool
	}{
		{"≤ 0.5 s", "250 ms (median of 5)", 0.5, true, true},
		{"≤ 18 ms", "36.0 ms (p95 40.0 ms, n=30)", 2, true, true},
		{"≥ 1,000/s; share of a raw log", "1,500/s, 60 % of a raw log", 1.5, false, true},
		{"≤ 45 MiB", "22.5 MiB, with 1 helper processes 25.0", 0.5, true, true},
		{"p50 ≤ 5 ms", "p50 2.5 ms", 0.5, true, true},
		{"≤ 45 MiB", "20 ms", 0, false, false},
		{"nothing left behind", "nothing", 0, false, false},
		{"≤ 10 s", "failed: no such file", 0, false, false},
	} {
		share, atMost, ok := figure{target: tt.target, measured: tt.measured}.share()
		if d := share - tt.share; d > 1e-9 || d < -1e-9 || atMost != tt.atMost || ok != tt.ok {
			t.Errorf("share(%q, %q) = %v, %v, %v, want %v, %v, %v", tt.target, tt.measured, share, atMost, ok, tt.share, tt.atMost, tt.ok)
		}
	}
}

// A chart has no value that is not in the results, and names are inserted as text.
func TestDraw(t *testing.T) {
	got := draw(&run{figures: []figure{{"a <b> & c", "≤ 2 s", "1 s", "ok"}, {"words", "none", "words", "ok"}}})
	if !strings.Contains(got, "a &lt;b&gt; &amp; c") || strings.Contains(got, "words") ||
		strings.Count(got, `class="bar"`) != 1 || !strings.Contains(got, `width="190.0"`) {
		t.Errorf("the chart is\n%s", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no date": "# machine\tx\na\tb\tc\td\n",
		"columns": "# date\tx\n# machine\ty\na\tb\n",
		"empty":   "",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
