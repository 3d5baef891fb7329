package rpc_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// relayed starts a server with a connected node that answers Test.Files with the result of
// files. The server's method Test.Relay calls the node.
func relayed(t *testing.T, files func() []*message.AllocFileInfo) (*rpc.Server, string) {
	t.Helper()
	onNode := rpc.Handle("Test.Files", rpc.Token, rpc.Here,
		func(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.FsListResponse, error) {
			return &message.FsListResponse{Files: files()}, nil
		}).Needs(rpc.AnyToken)
	node, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{onNode}, Auth: rpc.TrustPeer{}})
	if err != nil {
		t.Fatal(err)
	}
	var s *rpc.Server
	relay := rpc.Handle("Test.Relay", rpc.Token, rpc.Here,
		func(ctx context.Context, _ *rpc.Call, req *message.NodeSpecificRequest) (*message.FsListResponse, error) {
			out := new(message.FsListResponse)
			return out, s.NodeCall(ctx, "n1", "Test.Files", req, out)
		}).Needs(rpc.AnyToken)
	s, addr := serve(t, func(c *rpc.Config) {
		c.Methods, c.Hold, c.MaxConnsPerAddr = append(c.Methods, relay), 20*time.Millisecond, -1
	})
	p := pool(t, rpc.PoolConfig{Serve: node})
	if err := p.Call(within(t), addr, "Test.Bind", ask("n1", ""), nil); err != nil {
		t.Fatal(err)
	}
	return s, addr
}

// If a node returns an excessive reply, encoded or decoded, the caller gets an error and the
// server continues.
func TestNodeReply_Limit(t *testing.T) {
	small := []*message.AllocFileInfo{{Name: "small"}}
	var reply atomic.Pointer[[]*message.AllocFileInfo]
	s, _ := relayed(t, func() []*message.AllocFileInfo { return *reply.Load() })
	for name, c := range map[string]struct {
		reply []*message.AllocFileInfo
		want  string // in the error
	}{
		"many bytes":   {[]*message.AllocFileInfo{{Name: strings.Repeat("x", 17<<20)}}, "502"},
		"many nils":    {make([]*message.AllocFileInfo, 2<<20), "502"},
		"many structs": {slicesOf(300_000, &message.AllocFileInfo{}), "502"},
		"many files":   {slicesOf(50_000, &message.AllocFileInfo{Name: strings.Repeat("f", 40), Size: 1 << 40, FileMode: "-rw-r--r--"}), ""},
	} {
		reply.Store(&c.reply)
		var out message.FsListResponse
		err := s.NodeCall(within(t), "n1", "Test.Files", ask("n1", ""), &out)
		switch {
		case c.want == "" && (err != nil || len(out.Files) != len(c.reply)):
			t.Errorf("%s: %d files, %v, want %d", name, len(out.Files), err, len(c.reply))
		case c.want != "" && (err == nil || !strings.Contains(apierror.Text(err), c.want)):
			t.Errorf("%s: NodeCall() = %v, want %q", name, err, c.want)
		}
		reply.Store(&small)
		if err := s.NodeCall(within(t), "n1", "Test.Files", ask("n1", ""), &out); err != nil || len(out.Files) != 1 {
			t.Errorf("after %s: NodeCall() = %v, %v", name, out.Files, err)
		}
	}
}

func slicesOf(n int, f *message.AllocFileInfo) []*message.AllocFileInfo {
	out := make([]*message.AllocFileInfo, n)
	for i := range out {
		out[i] = f
	}
	return out
}

// Replies of nodes share a memory budget until they were forwarded, even if callers do not read
// them.
func TestNodeReply_Budget(t *testing.T) {
	var large atomic.Bool
	large.Store(true)
	_, addr := relayed(t, func() []*message.AllocFileInfo {
		if large.Load() {
			return []*message.AllocFileInfo{{Name: strings.Repeat("x", 15<<20)}}
		}
		return []*message.AllocFileInfo{{Name: "small"}}
	})
	wire := append([]byte{0x01}, callBytes(t, "Test.Relay", ask("n1", "me"))...)
	var first [16]byte
	refused := 0
	conns := make([]func() error, 0, 24)
	for range cap(conns) {
		conn := dial(t, addr)
		conns = append(conns, conn.Close)
		if _, err := conn.Write(wire); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(first[:]); err != nil { // the reply has begun, or is an error
			t.Fatal(err)
		}
		rest := make([]byte, 4096)
		n, _ := conn.Read(rest)
		if bytes.Contains(rest[:n], []byte("the server is busy")) {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("a server holds %d replies of 15 MiB for callers that do not read them", len(conns))
	}
	p := pool(t, rpc.PoolConfig{})
	large.Store(false)
	if err := p.Call(within(t), addr, "Test.Relay", ask("n1", "me"), nil); err != nil {
		t.Errorf("a small reply meanwhile: %v", err)
	}
	for _, end := range conns {
		end()
	}
	large.Store(true)
	var out message.FsListResponse
	testpace.Succeeds(t, "a large reply after that", func() error { return p.Call(within(t), addr, "Test.Relay", ask("n1", "me"), &out) })
}
