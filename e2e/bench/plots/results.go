package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// run is a file of results.
type run struct {
	date, revision, machine string
	cores, load             float64 // the load before the run
	figures                 []figure
}

// figure is one row of it.
type figure struct{ name, target, measured, mark string }

// parse reads a file that bench -tsv wrote.
func parse(text string) (*run, error) {
	r := &run{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		cells := strings.Split(line, "\t")
		switch {
		case strings.HasPrefix(line, "# ") && len(cells) == 2:
			if err := r.set(strings.TrimPrefix(cells[0], "# "), cells[1]); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		case strings.HasPrefix(line, "#"):
		case len(cells) == 4:
			r.figures = append(r.figures, figure{cells[0], cells[1], cells[2], cells[3]})
		default:
			return nil, fmt.Errorf("line %d has %d columns, want 4", i+1, len(cells))
		}
	}
	if r.date == "" || r.machine == "" || len(r.figures) == 0 {
		return nil, errors.New("no date, machine or figure: write it with make bench BENCH_TSV=website/bench.tsv")
	}
	return r, nil
}

// set sets a property of the run. A file may have more of them.
func (r *run) set(name, value string) (err error) {
	switch name {
	case "date":
		r.date = value
	case "revision":
		r.revision = value
	case "machine":
		r.machine = value
	case "cores":
		r.cores, err = strconv.ParseFloat(value, 64)
	case "load":
		r.load, err = strconv.ParseFloat(value, 64)
	}
	return err
}

var (
	// oneTarget is a target of one number, such as "p50 ≤ 18 ms"; a comment may follow.
	oneTarget = regexp.MustCompile(`^(?:p50 |p99 )?([≤≥]) ([\d,.]+) ?([a-zA-Zµ%/]+)`)
	// oneValue is a measured value that begins with a number, or with the percentile of the target.
	oneValue = regexp.MustCompile(`^(?:p50 |p99 )?([\d,.]+) ?([a-zA-Zµ%/]+)`)
)

// share returns a measured value as a multiple of its target. ok is false if either is not one
// number, or their units differ.
func (f figure) share() (share float64, atMost, ok bool) {
	t, m := oneTarget.FindStringSubmatch(f.target), oneValue.FindStringSubmatch(f.measured)
	if t == nil || m == nil {
		return 0, false, false
	}
	want, err := number(t[2], t[3])
	if err != nil {
		return 0, false, false
	}
	got, err := number(m[1], m[2])
	if err != nil || unit(t[3]) != unit(m[2]) || want == 0 {
		return 0, false, false
	}
	return got / want, t[1] == "≤", true
}

// seconds are the units of time.
var seconds = map[string]float64{"s": 1, "ms": 1e-3, "µs": 1e-6}

// number returns a value in seconds if its unit is one of time, else as it is.
func number(text, unit string) (float64, error) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if factor, ok := seconds[unit]; ok {
		n *= factor
	}
	return n, err
}

func unit(name string) string {
	if _, ok := seconds[name]; ok {
		return "s"
	}
	return name
}
