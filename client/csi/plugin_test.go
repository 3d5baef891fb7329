package csi_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/client/csi"
)

// fake is a plugin of the test. A method that is nil is unimplemented.
type fake struct {
	spec.UnimplementedIdentityServer
	spec.UnimplementedControllerServer
	spec.UnimplementedNodeServer

	answer func(ctx context.Context, method string, req any) (any, error)
}

// serve starts the plugin on a socket, and returns a connection to it.
func (f *fake) serve(t *testing.T) *csi.Plugin {
	t.Helper()
	dir := t.TempDir()
	f.listen(t, filepath.Join(dir, "csi.sock"))
	p, err := csi.Dial(t.Context(), csi.Socket{Dir: dir, Name: "csi.sock"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// listen starts the plugin on a socket, and returns its server. The test ends it.
func (f *fake) listen(t *testing.T, path string) *grpc.Server {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if f.answer != nil {
			if out, err := f.answer(ctx, filepath.Base(info.FullMethod), req); out != nil || err != nil {
				return out, err
			}
		}
		return handler(ctx, req)
	}))
	spec.RegisterIdentityServer(s, f)
	spec.RegisterControllerServer(s, f)
	spec.RegisterNodeServer(s, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return s
}

// TestProbe checks that a plugin without an opinion is ready.
func TestProbe(t *testing.T) {
	p := (&fake{answer: func(context.Context, string, any) (any, error) { return &spec.ProbeResponse{}, nil }}).serve(t)
	if ready, err := p.Probe(t.Context()); err != nil || !ready {
		t.Errorf("Probe() = %v, %v, want true", ready, err)
	}
}
