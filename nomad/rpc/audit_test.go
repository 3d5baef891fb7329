package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// ledger is an audit log that can fail.
type ledger struct {
	mu         sync.Mutex
	lines      []string
	full, late error // errors before calls, and at their end
}

func (l *ledger) audit(m rpc.Method, c *rpc.Call, _ rpc.Request, refused error) (func(error) error, error) {
	l.add("%s by %q refused=%t", m.Name, c.Identity.ClientID, refused != nil)
	if l.full != nil {
		return nil, l.full
	}
	return func(err error) error {
		l.add("%s: %v", m.Name, err)
		return errors.Join(err, l.late)
	}, nil
}

func (l *ledger) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *ledger) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.lines
	l.lines = nil
	return out
}

// Calls over a connection are recorded before and after they run, with their caller. In-process
// calls are not.
func TestAudit_Records(t *testing.T) {
	l := &ledger{}
	s, addr := serve(t, func(c *rpc.Config) { c.Audit = l.audit })
	pool := rpc.NewPool(rpc.PoolConfig{})
	defer pool.Close()
	call := func(method, token string) error {
		return pool.Call(t.Context(), addr, method,
			&message.NodeSpecificRequest{NodeID: "n", QueryOptions: message.QueryOptions{AuthToken: token}}, new(message.SingleNodeResponse))
	}
	for _, tt := range []struct {
		method, token string
		want          []string
	}{
		{"Test.Get", "t", []string{`Test.Get by "t" refused=false`, `Test.Get: <nil>`}},
		{"Test.Get", "bad", []string{`Test.Get by "bad" refused=true`, `Test.Get: Permission denied`}},
		{"Test.Server", "t", []string{`Test.Server by "t" refused=true`, `Test.Server: Permission denied`}},
		{"Test.Open", "bad", []string{`Test.Open by "bad" refused=false`, `Test.Open: <nil>`}},
		{"Test.Fail", "t", []string{`Test.Fail by "t" refused=false`, `Test.Fail: no, thanks`}},
		{"Test.Panic", "t", []string{`Test.Panic by "t" refused=false`, `Test.Panic: internal error in Test.Panic`}},
	} {
		if err := call(tt.method, tt.token); (err == nil) != strings.HasSuffix(tt.want[1], "<nil>") {
			t.Errorf("%s: %v", tt.method, err)
		}
		if got := l.take(); !slices.Equal(got, tt.want) {
			t.Errorf("%s was recorded as %q, want %q", tt.method, got, tt.want)
		}
	}
	if err := s.Call(t.Context(), "Test.Get", &message.NodeSpecificRequest{}, nil); err != nil || len(l.take()) != 0 {
		t.Errorf("an in-process call was recorded, or failed: %v", err)
	}
	stream, err := pool.Stream(t.Context(), addr, "Test.Echo")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out message.StreamErrWrapper
	if err := errors.Join(stream.Encode(&message.FsStreamRequest{}), stream.Decode(&out)); err != nil || out.Error == nil {
		t.Fatalf("%v %+v", err, out)
	}
	if got, want := l.take(), []string{`Test.Echo by "" refused=false`, `Test.Echo: no path`}; !slices.Equal(got, want) {
		t.Errorf("a stream was recorded as %q, want %q", got, want)
	}
}

// If the audit log fails, a call is not run, or not answered.
func TestAudit_Refuses(t *testing.T) {
	ran := false
	row := rpc.Handle("Test.Do", rpc.Token, rpc.Here,
		func(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
			ran = true
			return &message.SingleNodeResponse{Node: &nomad.Node{ID: "secret"}}, nil
		}).Needs(rpc.AnyToken)
	for name, l := range map[string]*ledger{"full": {full: errors.New("full")}, "late": {late: errors.New("late")}} {
		ran = false
		_, addr := serve(t, func(c *rpc.Config) { c.Audit, c.Methods = l.audit, []rpc.Method{row} })
		pool := rpc.NewPool(rpc.PoolConfig{})
		out := new(message.SingleNodeResponse)
		err := pool.Call(t.Context(), addr, "Test.Do", &message.NodeSpecificRequest{}, out)
		pool.Close()
		if err == nil || err.Error() != name || out.Node != nil || ran != (name == "late") {
			t.Errorf("%s: %v, ran %t, answered %v", name, err, ran, out.Node)
		}
	}
}
