package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
)

// pageWidth is the length of the longest line of a page. TestPageLines in e2e checks all pages.
const pageWidth = 120

// generatedMark ends the part of the page that is written by hand.
const generatedMark = "\n<!-- Generated from website/bench.tsv by: make plots -->\n"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: plots RESULTS DOCS")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

// write replaces the chart and the generated part of the page.
func write(results, docs string) error {
	file := filepath.Join(docs, "performance.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	page, chart, err := generate(results, string(text))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := os.WriteFile(filepath.Join(docs, "performance.svg"), []byte(chart), 0o644); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// generate returns the page with a new generated part, and the chart.
func generate(results, page string) (newPage, chart string, err error) {
	text, err := os.ReadFile(results)
	if err != nil {
		return "", "", fmt.Errorf("read the results: %w", err)
	}
	run, err := parse(string(text))
	if err != nil {
		return "", "", fmt.Errorf("read %s: %w", results, err)
	}
	head, _, ok := strings.Cut(page, generatedMark)
	if !ok {
		return "", "", fmt.Errorf("the page has no line %q", strings.TrimSpace(generatedMark))
	}
	return head + generatedMark + section(run), draw(run), nil
}

// section writes the date, the machine and all figures. The rows of a table would be too
// long for a page.
func section(r *run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s with the revision %.12s.\nMachine: %s.\n"+
		"Its load before the run was %.1f.\n", r.date, r.revision, r.machine, r.load)
	if r.load > r.cores/2 {
		b.WriteString("**The machine was busy with other work: a quiet one is faster.**\n")
	}
	b.WriteString("\n![Figures as shares of their targets](performance.svg)\n\n")
	for _, f := range r.figures {
		item := fmt.Sprintf("- **%s**: %s. Target: %s.", f.name, f.measured, f.target)
		if f.mark != "ok" {
			item += " Missed."
		}
		b.WriteString(strings.ReplaceAll(term.Wrap(item, pageWidth-2), "\n", "\n  ") + "\n")
	}
	return b.String()
}
