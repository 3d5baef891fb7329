package fsm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// machine is an FSM that counts its entries and records its notifications.
type machine struct {
	*fsm.FSM
	index    uint64
	notified []string
	rows     []string // the rows for events
}

func newMachine() *machine {
	m := &machine{index: 10}
	m.FSM = fsm.New(state.New(nil), m, slog.New(slog.DiscardHandler))
	return m
}

func (m *machine) EvalsUpserted(index uint64, evals []*nomad.Evaluation) {
	for _, e := range evals {
		m.notified = append(m.notified, fmt.Sprintf("eval %s %s @%d", e.ID, e.Status, index))
	}
}
func (m *machine) NodeChanged(index uint64, n *nomad.Node) {
	m.notified = append(m.notified, fmt.Sprintf("node %s %s @%d", n.ID, n.Status, index))
}
func (m *machine) AllocsStopped(index uint64, allocs []*nomad.Allocation) {
	for _, a := range allocs {
		m.notified = append(m.notified, fmt.Sprintf("stopped %s @%d", a.ID, index))
	}
}
func (m *machine) JobRemoved(ns, id string) { m.notified = append(m.notified, "removed "+ns+"/"+id) }
func (m *machine) AllocsChanged(index uint64, allocs []*nomad.Allocation) {
	for _, a := range allocs {
		m.notified = append(m.notified, fmt.Sprintf("changed %s %s @%d", a.ID, a.ClientStatus, index))
	}
}
func (m *machine) QuotasFreed(index uint64, quotas []string) {
	m.notified = append(m.notified, fmt.Sprintf("quotas %v @%d", quotas, index))
}

func (m *machine) VolumesFreed(index uint64, volumes []string) {
	m.notified = append(m.notified, fmt.Sprintf("volumes %v @%d", volumes, index))
}

// Applied implements fsm.Recorder.
func (m *machine) Applied(index uint64, command message.CommandType, rows []table.Write) {
	for _, w := range rows {
		text, err := json.Marshal(w.Row)
		if err != nil {
			panic(err)
		}
		m.rows = append(m.rows, fmt.Sprintf("%d %d %T gone=%v %s", index, command, w.Row, w.Deleted, text))
	}
}

// Replaced implements fsm.Recorder.
func (m *machine) Replaced() {}

// apply applies a command and returns the FSM's result.
func (m *machine) apply(t testing.TB, kind message.CommandType, payload any) any {
	t.Helper()
	data, err := codec.EncodeCommand(kind, payload)
	if err != nil {
		t.Fatal(err)
	}
	return m.raw(data)
}

// must is apply for commands that must succeed.
func (m *machine) must(t testing.TB, kind message.CommandType, payload any) uint64 {
	t.Helper()
	if err, failed := m.apply(t, kind, payload).(error); failed {
		t.Fatalf("command %d: %v", kind, err)
	}
	return m.index
}

func (m *machine) raw(data []byte) any {
	m.index++
	return m.Apply(&raft.Log{Index: m.index, Data: data})
}

// dump returns the snapshot stream of the state. Equal states give equal streams.
func (m *machine) dump(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := fsm.WriteSnapshot(&buf, m.State().Snapshot()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// unused are the numbers without a command, below those of our own.
var unused = map[int]bool{63: true, 66: true, 67: true, 68: true, 69: true, 70: true, 71: true, 72: true, 73: true, 74: true}

func TestEveryNumber(t *testing.T) {
	ignored := map[int]bool{8: true, 11: true, 12: true, 33: true, 34: true, 41: true, 42: true, 43: true}
	for n := range 128 {
		m := newMachine()
		before := m.dump(t)
		resp := m.apply(t, message.CommandType(n), map[string]any{})
		_, failed := resp.(error)
		known := n <= 77 && !unused[n] || n >= 120 && n <= 122 // the last three are our own
		select {
		case fatal := <-m.Failed():
			if known {
				t.Errorf("command %d stops the server: %v", n, fatal)
			}
			if !strings.Contains(fatal.Error(), fmt.Sprintf("log entry 11 has type %d (unknown)", n)) {
				t.Errorf("command %d: %v", n, fatal)
			}
			if again, _ := m.raw([]byte{8, 0x80}).(error); again == nil || m.AppliedIndex() == m.index {
				t.Errorf("the FSM continues after command %d", n)
			}
			if _, err := m.Snapshot(); err == nil {
				t.Errorf("a snapshot is written after command %d", n)
			}
		default:
			if !known {
				t.Errorf("command %d was skipped: %v", n, resp)
			}
		}
		if ignored[n] && resp != nil {
			t.Errorf("command %d = %v, want it ignored", n, resp)
		}
		if failed && !bytes.Equal(before, m.dump(t)) {
			t.Errorf("command %d failed and changed state", n)
		}
	}
}

// Entries with the ignore flag are skipped, alone and in batches, and each type is logged once.
func TestSkippedTypesAreLoggedOnce(t *testing.T) {
	var text bytes.Buffer
	f := fsm.New(state.New(nil), nil, slog.New(slog.NewTextHandler(&text, nil)))
	index := uint64(10)
	for n := range unused {
		data := []byte{byte(n) | 128, 0x80}
		for range 2 {
			index += 3
			out := append(f.ApplyBatch([]*raft.Log{{Index: index - 2, Data: data}, {Index: index - 1, Data: data}}),
				f.Apply(&raft.Log{Index: index, Data: data}))
			for _, resp := range out {
				if resp != nil {
					t.Errorf("command %d with the flag = %v", n, resp)
				}
			}
		}
		if got := strings.Count(text.String(), fmt.Sprintf("type=%d ", n)); got != 1 {
			t.Errorf("command %d is logged %d times", n, got)
		}
	}
	if f.Broken() != nil || f.AppliedIndex() != index {
		t.Errorf("applied %d, want %d: %v", f.AppliedIndex(), index, f.Broken())
	}
}

func TestIgnoreFlag(t *testing.T) {
	m := newMachine()
	if resp := m.raw([]byte{100 | 128, 0x80}); resp != nil {
		t.Errorf("unknown command with the flag = %v", resp)
	}
	if m.AppliedIndex() != 11 || m.State().LatestIndex() != 11 {
		t.Errorf("applied %d, state %d, want 11", m.AppliedIndex(), m.State().LatestIndex())
	}
	data, err := codec.EncodeCommand(message.NamespaceUpsertRequestType|message.IgnoreUnknownTypeFlag,
		&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if m.raw(data); m.State().Snapshot().Namespace(nil, "x") == nil {
		t.Error("a known command with the flag was not applied")
	}
}

func TestUndecodable(t *testing.T) {
	for name, data := range map[string][]byte{"empty": {}, "cut": {4, 0x81, 0xa3, 'J'}, "of another type": {4, 0x93, 1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			if err, failed := m.raw(data).(error); !failed || !strings.Contains(err.Error(), "log entry 11") {
				t.Errorf("Apply() = %v", err)
			}
			select {
			case <-m.Failed():
			default:
				t.Error("the server would continue")
			}
		})
	}
}

func TestObserver(t *testing.T) {
	m := newMachine()
	m.must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &nomad.Node{ID: "n1", Status: "ready"}})
	job := &nomad.Job{ID: "j", Namespace: "default", Type: "service", TaskGroups: []*nomad.TaskGroup{{Name: "g"}}}
	m.must(t, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: job,
		Eval: &nomad.Evaluation{ID: "e1", Namespace: "default", JobID: "j", Status: "pending"}})
	m.must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Job: job, EvalID: "e1",
		AllocsUpdated: []*nomad.Allocation{{ID: "a1", Namespace: "default", JobID: "j", TaskGroup: "g", NodeID: "n1", ClientStatus: "pending"}}})
	m.must(t, message.AllocClientUpdateRequestType,
		&message.AllocUpdateRequest{Alloc: []*nomad.Allocation{{ID: "a1", ClientStatus: "running"}}})
	m.must(t, message.AllocClientUpdateRequestType,
		&message.AllocUpdateRequest{Alloc: []*nomad.Allocation{{ID: "a1", ClientStatus: "failed"}}})
	m.must(t, message.JobDeregisterRequestType,
		&message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "default"}})
	want := []string{"node n1 ready @11", "eval e1 pending @12", "changed a1 running @14",
		"stopped a1 @15", "changed a1 failed @15", "removed default/j"}
	if fmt.Sprint(m.notified) != fmt.Sprint(want) {
		t.Errorf("notified of\n%q, want\n%q", m.notified, want)
	}
}

// sink is a raft.SnapshotSink in memory.
type sink struct {
	bytes.Buffer
	cancelled, closed bool
}

func (s *sink) ID() string    { return "s" }
func (s *sink) Cancel() error { s.cancelled = true; return nil }
func (s *sink) Close() error  { s.closed = true; return nil }

func TestSnapshotIsAMoment(t *testing.T) {
	m := newMachine()
	m.must(t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "before"}}})
	want := m.dump(t)
	snap, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	m.must(t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "after"}}})
	var s sink
	if err := snap.Persist(&s); err != nil || !s.closed || s.cancelled || !bytes.Equal(s.Bytes(), want) {
		t.Errorf("Persist() = %v, closed %t, cancelled %t", err, s.closed, s.cancelled)
	}
	old := m.State()
	if err := m.Restore(io.NopCloser(&s)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-old.Abandoned():
	default:
		t.Error("the old store was not abandoned")
	}
	if m.State().Snapshot().Namespace(nil, "after") != nil {
		t.Error("the store was not replaced")
	}
}

func TestRecordsSurvive(t *testing.T) {
	m := newMachine()
	stream := m.dump(t)
	records := []struct {
		kind byte
		name string
	}{{6, "periodic"}, {18, "csi"}, {18, "csi 2"}, {21, "service"}, {31, "volume"}}
	for _, f := range records {
		row, err := codec.Encode(map[string]any{"ID": f.name, "Deep": map[string]any{"List": []any{1, "x", nil}}})
		if err != nil {
			t.Fatal(err)
		}
		stream = append(append(stream, f.kind), row...)
	}
	for _, kind := range []byte{5, 8, 15} { // read and dropped
		stream = append(stream, kind, 0x92, 0x81, 0xa1, 'x', 1, 0xc0)
	}
	if err := m.Restore(io.NopCloser(oneByte{bytes.NewReader(stream)})); err != nil {
		t.Fatal(err)
	}
	again := m.dump(t)
	at := 0
	for _, f := range records {
		next := bytes.Index(again[at:], append([]byte{0xa0 | byte(len(f.name))}, f.name...))
		if next < 0 {
			t.Fatalf("record %q of type %d is lost or out of order", f.name, f.kind)
		}
		at += next
	}
	if err := m.Restore(io.NopCloser(bytes.NewReader(again))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, m.dump(t)) {
		t.Error("a second round trip changes the stream")
	}
}

// oneByte returns one byte per read.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func TestBadSnapshot(t *testing.T) {
	good := newMachine()
	good.must(t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "x"}}})
	stream := good.dump(t)
	with := func(more ...byte) []byte { return append(bytes.Clone(stream), more...) }
	for name, c := range map[string]struct {
		stream []byte
		want   string
	}{
		"empty":             {nil, "header"},
		"cut":               {stream[:len(stream)-3], "record"},
		"type byte at end":  {with(0), "record"},
		"unknown type":      {with(66, 0x80), "unrecognized snapshot type 66"},
		"event sink":        {with(20, 0x80), "type 20 (EventSink)"},
		"row of other form": {with(0, 0x93, 1, 2, 3), "type 0 (Node)"},
		"CSI volume cut":    {with(18, 0x82, 0xa1, 'x'), "type 18 (CSIVolume)"},
		"variable cut":      {with(22, 0x82, 0xa1, 'x'), "type 22 (Variables)"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			before, store := m.dump(t), m.State()
			err := m.Restore(io.NopCloser(bytes.NewReader(c.stream)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Restore() = %v, want %q", err, c.want)
			}
			if m.State() != store || !bytes.Equal(before, m.dump(t)) {
				t.Error("a refused snapshot changed state")
			}
			select {
			case <-m.Failed():
			default:
				t.Error("the server would continue")
			}
		})
	}
}

func TestRestoreFillsIn(t *testing.T) {
	var stream bytes.Buffer
	put := func(kind byte, row any) {
		t.Helper()
		text, err := codec.Encode(row)
		if err != nil {
			t.Fatal(err)
		}
		stream.WriteByte(kind)
		stream.Write(text)
	}
	stream.WriteByte(0x80)
	put(2, &nomad.IndexEntry{Key: "jobs", Value: 77})
	put(28, &nomad.NodePool{Name: "gpu"})
	put(28, &nomad.NodePool{Name: "all"})
	put(0, &nomad.Node{ID: "n1"})
	put(1, &nomad.Job{ID: "j", Namespace: "default", ModifyIndex: 7})
	put(4, &nomad.Allocation{ID: "a1", Namespace: "default", JobID: "j", Job: &nomad.Job{ID: "j", Namespace: "default", ModifyIndex: 7}})
	put(4, &nomad.Allocation{ID: "a2", Namespace: "default", JobID: "j", Job: &nomad.Job{ID: "j", Namespace: "default", ModifyIndex: 7}})
	put(10, &nomad.Deployment{ID: "d1", Namespace: "default", JobID: "gone", Status: "running"})
	put(10, &nomad.Deployment{ID: "d2", Namespace: "default", JobID: "j", Status: "running"})
	put(24, &rootkey.Meta{KeyID: "k1", State: "active"})
	m := newMachine()
	if err := m.Restore(io.NopCloser(&stream)); err != nil {
		t.Fatal(err)
	}
	s := m.State().Snapshot()
	if s.Index() != 77 || m.AppliedIndex() != 77 {
		t.Errorf("index is %d, applied %d, want 77", s.Index(), m.AppliedIndex())
	}
	for _, pool := range []string{"gpu", "all", "default"} {
		if p := s.NodePool(nil, pool); p == nil || p.NodeIdentityTTL != nomad.DefaultNodePoolNodeIdentityTTL ||
			(len(p.Hash) > 0) != (pool == "gpu") {
			t.Errorf("node pool %s is %+v", pool, p)
		}
	}
	if n := s.Node(nil, "n1"); n.NodePool != "default" || n.SchedulingEligibility != "eligible" {
		t.Errorf("node is %+v", n)
	}
	if s.Alloc(nil, "a1").Job != s.Alloc(nil, "a2").Job || s.Alloc(nil, "a1").Job.NodePool != "default" {
		t.Error("allocations of one job do not share it, or it has no node pool")
	}
	if s.Deployment(nil, "d1").Status != "cancelled" || s.Deployment(nil, "d2").Status != "running" {
		t.Error("the deployment of a deleted job is not cancelled, or another one is")
	}
	if k := s.ActiveRootKey(nil); k == nil || k.KeyID != "k1" {
		t.Errorf("legacy root key is %+v", k)
	}
}
