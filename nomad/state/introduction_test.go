package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// introduced registers a node with an introduction token.
func (w *world) introduced(id string, at int64, use idtoken.NodeIntroduction) error {
	_, err := w.RegisterNode(w.next(), &message.NodeRegisterRequest{Introduction: &use,
		Node: &nomad.Node{ID: id, Status: nomad.NodeStatusInit, StatusUpdatedAt: at}})
	return err
}

// A token admits as many nodes as it has uses, even after its nodes are deleted. A registered node
// needs no token.
func TestIntroduction(t *testing.T) {
	w := newWorld(t)
	once := idtoken.NodeIntroduction{TokenID: "a", Expiry: 1000}
	twice := idtoken.NodeIntroduction{TokenID: "b", Uses: 2, Expiry: 1000}
	for i, c := range []struct {
		node string
		use  idtoken.NodeIntroduction
		ok   bool
	}{
		{"n1", once, true},
		{"n2", once, false},
		{"n1", once, true}, // it registers again
		{"n2", twice, true},
		{"n3", twice, true},
		{"n4", twice, false},
		{"n5", idtoken.NodeIntroduction{Expiry: 1000}, false},
		{"n5", idtoken.NodeIntroduction{TokenID: "c/d", Expiry: 1000}, false},
		{"n5", idtoken.NodeIntroduction{TokenID: "c"}, false},
	} {
		err := w.introduced(c.node, 500, c.use)
		if (err == nil) != c.ok {
			t.Errorf("%d: node %s with token %q: %v", i, c.node, c.use.TokenID, err)
		}
		if err != nil && !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%d: %v is not a refusal", i, err)
		}
		if known := w.snap().Node(nil, c.node) != nil; known != c.ok {
			t.Errorf("%d: node %s is known: %t", i, c.node, known)
		}
	}
	w.ok(w.DeregisterNodes(w.next(), state.Deregistration{IDs: []string{"n1"}}))
	if err := w.introduced("n6", 500, once); !errors.Is(err, idtoken.ErrIntroductionUsed) {
		t.Errorf("after its node was purged: %v", err)
	}
}

// Uses are kept in snapshots, and until long after the token expired.
func TestIntroductionIsRemembered(t *testing.T) {
	w := newWorld(t)
	use := func(id string, expiry int64) idtoken.NodeIntroduction {
		return idtoken.NodeIntroduction{TokenID: id, Expiry: expiry}
	}
	for n := range 5 {
		if err := w.introduced(fmt.Sprint("n", n), 0, use(fmt.Sprint("t", n), int64(1000*n+1))); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (keys []string) {
		for _, rec := range state.Tables() {
			if rec.Name != "Index" {
				continue
			}
			for row := range rec.Rows(w.snap()) {
				if e := row.(*nomad.IndexEntry); strings.HasPrefix(e.Key, "introduction/") {
					keys = append(keys, e.Key)
				}
			}
		}
		return keys
	}
	if got := rows(); len(got) != 5 || got[0] != "introduction/000000000001/t0/1" {
		t.Errorf("rows are %q", got)
	}
	restore := state.NewRestore(slog.New(slog.DiscardHandler))
	for _, rec := range state.Tables() {
		for row := range rec.Rows(w.snap()) {
			raw, err := codec.Encode(row)
			if err != nil {
				t.Fatal(err)
			}
			if err := rec.Read(restore, func(v any) error { return codec.Decode(bytes.Clone(raw), v) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := w.index
	w.Store = restore.Finish()
	if w.LatestIndex() > before {
		t.Errorf("the restored store is at index %d, after %d", w.LatestIndex(), before)
	}
	if err := w.introduced("again", 0, use("t4", 4001)); !errors.Is(err, idtoken.ErrIntroductionUsed) {
		t.Errorf("after a restore: %v", err)
	}
	if err := w.introduced("late", 2001+600, use("t5", 5001)); err != nil {
		t.Fatal(err)
	}
	if got := rows(); len(got) != 4 || !strings.Contains(got[0], "/t2/") {
		t.Errorf("rows later are %q", got)
	}
}

// The same holder may use a token again, which counts once. That is kept in snapshots and forgotten with
// the uses.
func TestIntroductionOfHolder(t *testing.T) {
	w := newWorld(t)
	use := idtoken.NodeIntroduction{TokenID: "a", Expiry: 1000, Holder: "h1"}
	other := idtoken.NodeIntroduction{TokenID: "a", Expiry: 1000, Holder: "h2"}
	for i, c := range []struct {
		node string
		use  idtoken.NodeIntroduction
		ok   bool
	}{{"n1", use, true}, {"n2", other, false}, {"n2", idtoken.NodeIntroduction{TokenID: "a", Expiry: 1000}, false}, {"n3", use, true}} {
		if err := w.introduced(c.node, 500, c.use); (err == nil) != c.ok {
			t.Errorf("%d: node %s: %v", i, c.node, err)
		}
	}
	held := func() (n int) {
		for _, rec := range state.Tables() {
			if rec.Name != "Index" {
				continue
			}
			for row := range rec.Rows(w.snap()) {
				if strings.HasPrefix(row.(*nomad.IndexEntry).Key, "introduction_holder/") {
					n++
				}
			}
		}
		return n
	}
	if got := held(); got != 1 {
		t.Errorf("a snapshot has %d holders, want 1", got)
	}
	if err := w.introduced("n4", 100_000, idtoken.NodeIntroduction{TokenID: "b", Expiry: 100_100, Holder: "h3"}); err != nil || held() != 1 {
		t.Errorf("after the expiry: %v, %d holders, want 1", err, held())
	}
}

// A node that has a key keeps it, whatever a server without support for keys sends.
func TestNodeKeepsItsKey(t *testing.T) {
	w := newWorld(t)
	put := func(key []byte) error {
		_, err := w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: &nomad.Node{ID: "n1", Status: nomad.NodeStatusInit, Key: key}})
		return err
	}
	for _, key := range [][]byte{nil, {1}, nil, {1}} {
		if err := put(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := put([]byte{2}); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("another key: %v", err)
	}
	if got := w.snap().Node(nil, "n1").Key; !bytes.Equal(got, []byte{1}) {
		t.Errorf("the key is %v", got)
	}
}
