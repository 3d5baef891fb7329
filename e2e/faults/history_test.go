package faults_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/faults"
)

const (
	done    = faults.Done
	refused = faults.Refused
	unknown = faults.Unknown
)

func read(call, ret, got int64) faults.Op {
	return faults.Op{Key: "k", Kind: faults.Read, Outcome: done, Got: got, Call: call, Return: ret}
}

func cas(call, ret, expect, value int64, o faults.Outcome) faults.Op {
	return faults.Op{Key: "k", Kind: faults.CAS, Outcome: o, Expect: expect, Value: value, Call: call, Return: ret}
}

func write(call, ret, value int64, o faults.Outcome) faults.Op {
	return faults.Op{Key: "k", Kind: faults.Write, Outcome: o, Value: value, Call: call, Return: ret}
}

func at(index uint64, o faults.Op) faults.Op {
	o.Index = index
	return o
}

// The checker finds violations, and only those.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []faults.Op
		want string // substring of the error
	}{
		{"in order", []faults.Op{cas(1, 2, 0, 1, done), read(3, 4, 1), cas(5, 6, 1, 2, done), read(7, 8, 2)}, ""},
		{"concurrent reads see either", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 10, 1, 2, done), read(4, 5, 1), read(6, 7, 2)}, ""},
		{"a stale read", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 4, 1, 2, done), read(5, 6, 1)}, "not linearizable"},
		{"back and forth", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 10, 1, 2, done), read(4, 5, 2), read(6, 7, 1)}, "not linearizable"},
		{"a lost write", []faults.Op{cas(1, 2, 0, 1, done), read(3, 4, 0)}, "not linearizable"},
		{"two winners", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 9, 1, 2, done), cas(4, 8, 1, 3, done)}, "not linearizable"},
		{"refused without a reason", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 4, 1, 2, refused), read(5, 6, 1)}, "not linearizable"},
		{"refused but done", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 4, 1, 2, refused), read(5, 6, 2)}, "not linearizable"},
		{"unknown, done late", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 4, 1, 2, unknown), read(5, 6, 1), read(7, 8, 2)}, ""},
		{"unknown, never done", []faults.Op{cas(1, 2, 0, 1, done), cas(3, 4, 1, 2, unknown), cas(5, 6, 1, 3, done), read(7, 8, 3)}, ""},
		{"unknown, done twice", []faults.Op{write(1, 2, 1, unknown), write(3, 4, 2, done), read(5, 6, 1),
			write(7, 8, 3, done), read(9, 10, 1)}, "not linearizable"},
		{"a write done twice", []faults.Op{write(1, 2, 1, done), write(3, 4, 2, done), read(5, 6, 2), read(7, 8, 1)}, "not linearizable"},
		{"an unseen write refuses", []faults.Op{write(1, 2, 1, done), write(3, 4, 2, unknown), cas(5, 6, 1, 3, refused),
			write(7, 8, 4, done), read(9, 10, 4)}, ""},
		{"one index, two values", []faults.Op{at(7, read(1, 4, 1)), at(7, read(2, 5, 2))}, "at index 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			err := faults.Check(c.ops, time.Minute, dir)
			kept, _ := filepath.Glob(filepath.Join(dir, "*", "history.jsonl"))
			switch {
			case c.want == "" && (err != nil || len(kept) != 0):
				t.Errorf("Check() = %v, kept %v", err, kept)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check() = %v, want %q", err, c.want)
			case c.want != "" && len(kept) != 1:
				t.Errorf("Check() kept %v", kept)
			}
			if c.want == "not linearizable" {
				if _, err := os.Stat(filepath.Join(filepath.Dir(kept[0]), "history.html")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
