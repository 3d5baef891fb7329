package fsm_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// recorder records its calls.
type recorder struct {
	*broker.Observer
	calls []string
}

func (r *recorder) Applied(index uint64, command message.CommandType, rows []table.Write) {
	call := fmt.Sprint(index, " ", command)
	for _, w := range rows {
		call += fmt.Sprintf(" %T", w.Row)
		if w.Deleted {
			call += " gone"
		}
	}
	r.calls = append(r.calls, call)
}

func (r *recorder) Replaced() { r.calls = append(r.calls, "replaced") }

// A Recorder is notified of every entry that wrote rows, also in batches, and of a restore.
func TestRecorder(t *testing.T) {
	b := broker.New(broker.Config{})
	r := &recorder{Observer: broker.NewObserver(b, broker.NewBlocked(b), func(string) (string, bool) { return "", false },
		func(nomad.NamespacedID) bool { return false })}
	log := slog.New(slog.DiscardHandler)
	f := fsm.New(state.New(log), r, log)
	entry := func(index uint64, kind message.CommandType, body any) *raft.Log {
		data, err := codec.EncodeCommand(kind, body)
		if err != nil {
			t.Fatal(err)
		}
		return &raft.Log{Index: index, Data: data, Type: raft.LogCommand}
	}
	f.Apply(registration(t, 10))
	f.ApplyBatch([]*raft.Log{registration(t, 11), registration(t, 12)})
	f.Apply(entry(13, message.NodePoolDeleteRequestType, &message.NodePoolDeleteRequest{Names: []string{"none"}})) // fails
	f.Apply(entry(14, message.JobDeregisterRequestType, &message.JobDeregisterRequest{JobID: "job-10-0", Purge: true,
		WriteRequest: message.WriteRequest{Namespace: "default"}}))
	snapshot, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	sink := &buffer{}
	if err := snapshot.Persist(sink); err != nil {
		t.Fatal(err)
	}
	if err := f.Restore(io.NopCloser(&sink.Buffer)); err != nil {
		t.Fatal(err)
	}
	want := []string{"10 4 *nomad.Job *nomad.Evaluation", "11 4 *nomad.Job *nomad.Evaluation", "12 4 *nomad.Job *nomad.Evaluation",
		"14 5 *nomad.Job gone", "replaced"}
	if !slices.Equal(r.calls, want) {
		t.Errorf("the recorder got %q, want %q", r.calls, want)
	}
}

// buffer is a sink in memory.
type buffer struct{ bytes.Buffer }

func (*buffer) ID() string    { return "test" }
func (*buffer) Cancel() error { return nil }
func (*buffer) Close() error  { return nil }
