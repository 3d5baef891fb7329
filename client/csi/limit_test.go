package csi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestRetries checks which errors are repeated, and how often.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		method   string
		code     codes.Code
		failures int32
		calls    int32
		want     codes.Code
	}{
		{"NodePublishVolume", codes.Unavailable, 3, 4, codes.OK},
		{"NodePublishVolume", codes.ResourceExhausted, 1, 2, codes.OK},
		{"CreateVolume", codes.Unavailable, 9, 4, codes.Unavailable},
		{"NodePublishVolume", codes.Internal, 9, 1, codes.Internal},
		{"NodePublishVolume", codes.Aborted, 9, 1, codes.Aborted},
		{"Probe", codes.Unavailable, 9, 1, codes.Unavailable}, // the next one follows soon
	} {
		var calls atomic.Int32
		p := (&fake{answer: func(context.Context, string, any) (any, error) {
			if calls.Add(1) <= c.failures {
				return nil, status.Error(c.code, "not now")
			}
			return &spec.NodePublishVolumeResponse{}, nil
		}}).serve(t)
		err := methods[c.method](t.Context(), p)
		if got := calls.Load(); got != c.calls || err == nil != (c.want == codes.OK) || err != nil && csi.Code(err) != c.want {
			t.Errorf("%s after %d errors %s: %d calls and %v, want %d calls and %s", c.method, c.failures, c.code, got, err, c.calls, c.want)
		}
	}
}

// TestHugeAnswer checks that an answer of 100 MiB fails its call at once and without repetition, while another call goes on.
func TestHugeAnswer(t *testing.T) {
	var huge atomic.Int32
	begun, release := make(chan struct{}), make(chan struct{})
	p := (&fake{answer: func(_ context.Context, method string, _ any) (any, error) {
		if method == "Probe" {
			close(begun)
			<-release
			return &spec.ProbeResponse{}, nil
		}
		huge.Add(1)
		return &spec.ListVolumesResponse{NextToken: strings.Repeat("x", 100<<20)}, nil
	}}).serve(t)
	probed := make(chan error, 1)
	go func() {
		_, err := p.Probe(t.Context())
		probed <- err
	}()
	<-begun
	before := allocated()
	_, err := p.ListVolumes(t.Context(), &message.ClientCSIControllerListVolumesRequest{})
	after := allocated()
	if want := "the answer of the plugin to ListVolumes is larger than 4 MiB"; err == nil || err.Error() != want || huge.Load() != 1 {
		t.Errorf("%v after %d calls, want %s after one", err, huge.Load(), want)
	}
	// The plugin is in this process, and needs the answer twice.
	if grown := int64(after-before) - 200<<20; grown > 90<<20 {
		t.Errorf("the call allocated %d MiB", grown>>20)
	}
	close(release)
	if err := <-probed; err != nil {
		t.Errorf("the other call: %v", err)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestManyParts checks that a small answer with very many empty messages is refused before it is decoded.
func TestManyParts(t *testing.T) {
	answer := &spec.ListVolumesResponse{}
	var raw []byte
	for range 1_500_000 {
		raw = protowire.AppendBytes(protowire.AppendTag(raw, 1, protowire.BytesType), nil) // an entry
	}
	answer.ProtoReflect().SetUnknown(raw)
	_, err := answering(t, answer).ListVolumes(t.Context(), &message.ClientCSIControllerListVolumesRequest{})
	if err == nil || !strings.HasSuffix(err.Error(), "the answer has too many parts") {
		t.Errorf("%v, want an error for too many parts", err)
	}
	nested := &spec.CreateVolumeResponse{}
	volume := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "v")
	for range 1_000_000 {
		volume = protowire.AppendBytes(protowire.AppendTag(volume, 5, protowire.BytesType), nil) // a topology
	}
	nested.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), volume))
	err = methods["CreateVolume"](t.Context(), answering(t, nested))
	if err == nil || !strings.HasSuffix(err.Error(), "the answer has too many parts") {
		t.Errorf("nested: %v, want an error for too many parts", err)
	}
}

// TestDamagedAnswer checks an answer that is not of the expected form.
func TestDamagedAnswer(t *testing.T) {
	answer := &spec.ListVolumesResponse{}
	answer.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0xff, 0xff, 0xff}))
	err := methods["ListVolumes"](t.Context(), answering(t, answer))
	if csi.Code(err) != codes.Internal || !strings.HasPrefix(err.Error(), "controller plugin returned an internal error") {
		t.Errorf("%v, want an internal error", err)
	}
}

// TestGarbage checks programs that do not speak the protocol: each call ends with an error.
func TestGarbage(t *testing.T) {
	for name, talk := range map[string]func(c net.Conn){
		"text":    func(c net.Conn) { io.WriteString(c, strings.Repeat("HTTP/1.1 200 OK\r\n\r\n", 100)) },
		"closes":  func(c net.Conn) { c.Close() },
		"silence": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := net.Listen("unix", filepath.Join(dir, "csi.sock"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					talk(c)
				}
			}()
			p, err := csi.Dial(t.Context(), csi.Socket{Dir: dir, Name: "csi.sock"})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := methods["NodePublishVolume"](ctx, p); err == nil || len(err.Error()) > 800 {
				t.Errorf("%v, want a short error", err)
			}
		})
	}
}

// TestHangingCall checks that a call ends with its context, and that the context of the plugin ends too.
func TestHangingCall(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	p := (&fake{answer: func(ctx context.Context, method string, _ any) (any, error) {
		if method == "Probe" {
			return &spec.ProbeResponse{}, nil
		}
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}}).serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- methods["NodePublishVolume"](ctx, p) }()
	<-begun // a call that ends before it reaches the plugin does not end there
	if _, err := p.Probe(t.Context()); err != nil {
		t.Errorf("another call during a call that hangs: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || csi.Code(err) != codes.Canceled {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	<-ended
}

// TestClose checks that Close lets a running call end, that later calls fail, and that nothing remains.
func TestClose(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	f := &fake{answer: func(context.Context, string, any) (any, error) {
		close(begun)
		<-release
		return &spec.NodePublishVolumeResponse{}, nil
	}}
	dir := t.TempDir()
	server := f.listen(t, filepath.Join(dir, "csi.sock"))
	before := runtime.NumGoroutine()
	p, err := csi.Dial(t.Context(), csi.Socket{Dir: dir, Name: "csi.sock"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- methods["NodePublishVolume"](t.Context(), p) }()
	<-begun
	for range 2 {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	if _, err := p.Probe(t.Context()); csi.Code(err) != codes.Unavailable {
		t.Errorf("a call after Close: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("the running call: %v", err)
	}
	server.Stop()
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("goroutines remain:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}
