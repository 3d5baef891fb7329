package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestBatches applies the same random commands to two FSMs, on one of them in batches. Results,
// notifications and states stay equal, also when a command of a batch fails.
func TestBatches(t *testing.T) {
	complete, broken := 0, 0
	for seed := range uint64(20) {
		one, many := newMachine(), newMachine()
		s := stream{rand.New(rand.NewPCG(seed, 2))}
		for n := 0; n < 400; {
			var batch []*raft.Log
			failed := 0
			want := []any{}
			for range 1 + s.IntN(6) {
				kind, payload := s.next()
				data, err := codec.EncodeCommand(kind, payload)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, one.raw(data))
				if _, is := want[len(want)-1].(error); is {
					failed++
				}
				batch = append(batch, &raft.Log{Index: one.index, Data: data})
				n++
			}
			got := many.ApplyBatch(batch)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, before command %d: the batch returns %v, single commands return %v", seed, n, got, want)
			}
			if len(batch) > 1 && failed == 0 {
				complete++
			} else if len(batch) > 1 {
				broken++
			}
			if !slices.Equal(one.notified, many.notified) {
				t.Fatalf("seed %d, before command %d: the batch notifies %v, single commands notify %v", seed, n, many.notified, one.notified)
			}
			one.notified, many.notified = nil, nil
			if one.AppliedIndex() != many.AppliedIndex() || one.State().LatestIndex() != many.State().LatestIndex() {
				t.Fatalf("seed %d, before command %d: the batch leads to index %d", seed, n, many.AppliedIndex())
			}
		}
		if !bytes.Equal(one.dump(t), many.dump(t)) {
			t.Fatalf("seed %d: states differ", seed)
		}
	}
	if complete < 100 || broken < 100 {
		t.Errorf("%d batches without and %d with a failed command: too few", complete, broken)
	}
}

// Membership entries of Raft are not commands.
func TestBatchWithMembership(t *testing.T) {
	m := newMachine()
	data, err := codec.EncodeCommand(message.ReconcileJobSummariesRequestType, &message.GenericRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []byte{data[0], 126} { // a command, and an unknown one, which ends the batch
		m.index += 3
		got := m.ApplyBatch([]*raft.Log{{Index: m.index - 2, Data: data},
			{Index: m.index - 1, Type: raft.LogConfiguration, Data: []byte("servers")},
			{Index: m.index, Data: append([]byte{last}, data[1:]...)}})
		_, failed := got[2].(error)
		if got[0] != nil || got[1] != nil || failed != (last == 126) {
			t.Errorf("the results are %v", got)
		}
	}
	if got := m.ApplyBatch([]*raft.Log{{Index: m.index + 1, Data: data}, {Index: m.index + 2, Data: data}}); got[0] == nil || got[1] == nil {
		t.Errorf("the result after an unknown entry is %v", got)
	}
}
