package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// result is a measured figure.
type result struct{ name, target, measured, mark string }

// The marks of results.
const (
	reached = "ok"
	missing = "MISSED"
)

// report is what a run measured, and on what.
type report struct {
	revision string // of the measured program
	load     string // of the machine before the run
	results  []result
}

// newReport returns the report of a run that begins now.
func newReport(ctx context.Context, nomad string) (*report, error) {
	out, err := exec.CommandContext(ctx, nomad, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", nomad, err)
	}
	r := &report{revision: "unknown", load: "unknown"}
	for line := range strings.Lines(string(out)) {
		if revision, ok := strings.CutPrefix(line, "Revision "); ok {
			r.revision = strings.TrimSpace(revision)
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.load, _, _ = strings.Cut(string(text), " ")
	}
	return r, nil
}

// write writes the results as tab-separated values after lines with the date, the revision and the
// machine. `make plots` makes the page of the site about performance from such a file.
func (r *report) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "# Written by make bench: do not edit. Columns: figure, target, measured, result.\n")
	fmt.Fprintf(w, "# date\t%s\n# revision\t%s\n# machine\t%s\n# cores\t%d\n# load\t%s\n",
		time.Now().UTC().Format(time.DateOnly), r.revision, thisMachine(), runtime.NumCPU(), r.load)
	flat := strings.NewReplacer("\t", " ", "\n", " ")
	for _, one := range r.results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", flat.Replace(one.name), flat.Replace(one.target), flat.Replace(one.measured), one.mark)
	}
	if err := w.Flush(); err != nil {
		_ = f.Close() // the first error is the reason
		return fmt.Errorf("write the results: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// thisMachine describes the processor, the memory and the kernel.
func thisMachine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	out := fmt.Sprintf("%d cores of %s", runtime.NumCPU(), model)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		out += fmt.Sprintf(", %d GiB", uint64(info.Totalram)*uint64(info.Unit)>>30)
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		out += ", Linux " + unix.ByteSliceToString(name.Release[:])
	}
	return out
}
