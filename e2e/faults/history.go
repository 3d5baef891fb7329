package faults

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is the kind of an operation.
type Kind string

// Kinds of operations.
const (
	Read  Kind = "read"
	CAS   Kind = "cas"   // stores Value if the object still has Expect
	Write Kind = "write" // stores Value unconditionally
)

// Outcome is the result for the client.
type Outcome string

// Outcomes. An operation that certainly had no effect is not in a history.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // the object did not have the expected value
	Unknown Outcome = "unknown" // it may have happened, or happen later, or never
)

// Op is one operation of a client. Each value is written at most once, so that a value identifies
// its write; 0 means that the object does not exist.
type Op struct {
	Client  int
	Server  string
	Key     string
	Kind    Kind
	Expect  int64 `json:",omitempty"`
	Value   int64 `json:",omitempty"` // to be stored
	Outcome Outcome
	Got     int64  `json:",omitempty"` // value read
	Index   uint64 `json:",omitempty"` // index of the object in the answer
	Call    int64  // nanoseconds since the start
	Return  int64
	Err     string `json:",omitempty"`
}

// String returns the operation in readable form.
func (o Op) String() string {
	switch o.Kind {
	case Read:
		return fmt.Sprintf("read → %d", o.Got)
	case CAS:
		return fmt.Sprintf("cas %d → %d: %s", o.Expect, o.Value, o.Outcome)
	}
	return fmt.Sprintf("write %d: %s", o.Value, o.Outcome)
}

// History records the operations of many clients. It is safe for concurrent use.
type History struct {
	began time.Time

	mu  sync.Mutex
	ops []Op
}

// NewHistory returns a history that starts now.
func NewHistory() *History { return &History{began: time.Now()} }

// Now returns the time in the history.
func (h *History) Now() int64 { return int64(time.Since(h.began)) }

// Add adds an operation.
func (h *History) Add(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// Ops returns the operations in the order of their calls.
func (h *History) Ops() []Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := slices.Clone(h.ops)
	slices.SortStableFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) })
	return ops
}

// Check returns nil if a history is linearizable: one order of all operations, each between its
// call and its return, explains all outcomes. Otherwise it writes the history below dir.
func Check(ops []Op, limit time.Duration, dir string) error {
	if err := checkIndexes(ops); err != nil {
		return keep(ops, dir, nil, err)
	}
	result, info := porcupine.CheckOperationsVerbose(model(), operations(settle(ops)), limit)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return keep(ops, dir, &info, fmt.Errorf("whether the history is linearizable was not decided within %v", limit))
	}
	return keep(ops, dir, &info, fmt.Errorf("the history is not linearizable"))
}

// checkIndexes checks that the same index always has the same value.
func checkIndexes(ops []Op) error {
	type place struct {
		key   string
		index uint64
	}
	seen := map[place]int64{}
	for _, o := range ops {
		value := o.Got
		if o.Kind != Read {
			value = o.Value
		}
		if o.Outcome != Done || o.Index == 0 {
			continue
		}
		at := place{o.Key, o.Index}
		if was, ok := seen[at]; ok && was != value {
			return fmt.Errorf("%s is %d and %d at index %d", o.Key, was, value, o.Index)
		}
		seen[at] = value
	}
	return nil
}

// settle narrows operations with unknown outcome, so that the checker has less to try. If a client
// read the value, the write happened before that read returned. If no client read it and the object
// is only changed by compare-and-set, the write had no effect on others: every change names the
// expected value.
func settle(ops []Op) []Op {
	saw := map[int64]int64{} // value → first return of an operation that read it
	blind := map[string]bool{}
	for _, o := range ops {
		blind[o.Key] = blind[o.Key] || o.Kind == Write
		value := o.Got
		if o.Kind == CAS {
			value = o.Expect
		}
		if first, ok := saw[value]; o.Outcome == Done && o.Kind != Write && (!ok || o.Return < first) {
			saw[value] = o.Return
		}
	}
	var out []Op
	for _, o := range ops {
		if o.Outcome == Unknown {
			first, ok := saw[o.Value]
			switch {
			case ok:
				o.Return = max(first, o.Call)
			case o.Kind == Read, !blind[o.Key]:
				continue
			default:
				o.Return = math.MaxInt64
			}
		}
		out = append(out, o)
	}
	return out
}

func operations(ops []Op) []porcupine.Operation {
	out := make([]porcupine.Operation, 0, len(ops))
	for _, o := range ops {
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Output: o.Outcome, Return: o.Return})
	}
	return out
}

// unread is the state of an object before its first operation: any value.
const unread int64 = -1

// model returns the sequential specification of an object.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return unread },
		Step: func(state, input, _ any) (bool, any) {
			return step(state.(int64), input.(Op))
		},
		DescribeOperation: func(input, _ any) string { return input.(Op).String() + " (" + input.(Op).Server + ")" },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}

// step applies one operation to an object with the value is. It reports whether the outcome is
// possible, and returns the value afterwards.
func step(is int64, o Op) (bool, int64) {
	switch {
	case o.Kind == Read:
		return is == o.Got || is == unread, o.Got
	case o.Kind == Write:
		return true, o.Value
	case o.Outcome == Done:
		return is == o.Expect || is == unread, o.Value
	case o.Outcome == Refused:
		return is != o.Expect, is
	case is == o.Expect:
		return true, o.Value
	}
	return true, is // unknown, and refused
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	keys := map[string]int{}
	var out [][]porcupine.Operation
	for _, o := range history {
		key := o.Input.(Op).Key
		i, ok := keys[key]
		if !ok {
			i = len(out)
			keys[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], o)
	}
	return out
}

// keep writes a history, and its drawing if any, and returns an error with the path.
func keep(ops []Op, dir string, info *porcupine.LinearizationInfo, why error) error {
	dir, err := os.MkdirTemp(dir, "faults-")
	if err != nil {
		return fmt.Errorf("%w; it could not be kept: %w", why, err)
	}
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return fmt.Errorf("%w; it could not be kept: %w", why, err)
	}
	defer f.Close()
	enc := json.NewEncoder(f)
	for _, o := range ops {
		if err := enc.Encode(o); err != nil {
			return fmt.Errorf("%w; it could not be kept: %w", why, err)
		}
	}
	if info != nil {
		if err := porcupine.VisualizePath(model(), *info, filepath.Join(dir, "history.html")); err != nil {
			return fmt.Errorf("%w (see %s; it could not be drawn: %w)", why, dir, err)
		}
	}
	return fmt.Errorf("%w: see %s", why, dir)
}
