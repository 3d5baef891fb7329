package workloadapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// Limits of a task's socket.
const (
	maxConns   = 32
	maxStreams = 16
	maxMessage = 64 << 10
	maxHeaders = 8 << 10 // of one call, decompressed: a stream keeps them until it ends
	window     = 64 << 10
	handshake  = 5 * time.Second
	idle       = 10 * time.Minute // of a connection without streams
)

// secured is the metadata that every call must have, so that a request forged through a proxy in the
// task is refused (SPIFFE Workload Endpoint, section 5).
const secured = "workload.spiffe.io"

// Server serves the Workload API to one task.
type Server struct {
	Task    Task
	Bundles *Bundles
	// Group is the control group of the task.
	Group *cgroup.Group
}

// Serve answers the connections of a listener until ctx ends, and renews the task's SVID meanwhile. It
// closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.Bundles.Use()()
	a := &api{task: s.Task, source: NewSource(s.Task, s.Bundles), tokens: newTokens(s.Task), bundles: s.Bundles}
	srv := grpc.NewServer(grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxMessage), grpc.ConnectionTimeout(handshake),
		grpc.MaxHeaderListSize(maxHeaders), grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.WaitForHandlers(true), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idle}),
		grpc.UnaryInterceptor(unarySecured), grpc.StreamInterceptor(streamSecured))
	workload.RegisterSpiffeWorkloadAPIServer(srv, a)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.Task.Task.Spiffe.X509 {
		wg.Go(func() { a.source.Run(ctx) })
	}
	stop := context.AfterFunc(ctx, srv.Stop)
	defer stop()
	err := srv.Serve(&attested{Listener: l, group: s.Group, log: s.Task.Log, free: make(chan struct{}, maxConns)})
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) && ctx.Err() == nil {
		return fmt.Errorf("serve the Workload API: %w", err)
	}
	return nil
}

// attested is a listener that accepts connections of the task only, and at most maxConns at a time.
type attested struct {
	net.Listener
	group *cgroup.Group
	log   *slog.Logger
	free  chan struct{}
}

// Accept returns the next connection of the task. It closes those of others and those over the limit.
func (l *attested) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := attest(c, l.group); err != nil {
			l.log.Warn("refused a caller of the SPIFFE Workload API", "err", err)
			metrics.IncrCounter([]string{"client", "spiffe", "refused"}, 1)
			c.Close() // nothing was sent
			continue
		}
		select {
		case l.free <- struct{}{}:
			return &counted{Conn: c, done: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			l.log.Debug("SPIFFE Workload API: too many connections", "limit", maxConns)
			c.Close()
		}
	}
}

// counted is a connection that frees its place when it is closed.
type counted struct {
	net.Conn
	done func()
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// checkSecured rejects a call without the metadata.
func checkSecured(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get(secured); len(v) != 1 || v[0] != "true" {
		return status.Error(codes.InvalidArgument, "metadata "+secured+": true is required")
	}
	return nil
}

func unarySecured(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := checkSecured(ctx); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func streamSecured(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := checkSecured(stream.Context()); err != nil {
		return err
	}
	return handle(srv, stream)
}
