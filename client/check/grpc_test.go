package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// grpcTarget starts a server of the health protocol and returns a check of it.
func grpcTarget(t *testing.T, h grpc_health_v1.HealthServer, opts ...grpc.ServerOption) *Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(opts...)
	grpc_health_v1.RegisterHealthServer(s, h)
	go s.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(s.Stop)
	target := at(t, l.Addr())
	target.Type = nomad.ServiceCheckGRPC
	return target
}

func TestGRPC(t *testing.T) {
	// Neither a proxy of the environment nor its names matter.
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	h := health.NewServer()
	h.SetServingStatus("up", grpc_health_v1.HealthCheckResponse_SERVING)
	h.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	h.SetServingStatus("odd", grpc_health_v1.HealthCheckResponse_UNKNOWN)
	target := grpcTarget(t, h)
	for service, want := range map[string]string{
		"": "success nomad: grpc ok", "up": "success nomad: grpc ok", "down": "failure nomad: grpc status is NOT_SERVING, want SERVING",
		"odd": "failure nomad: grpc status is UNKNOWN, want SERVING", "none": "failure nomad: unknown service",
	} {
		target.GRPC.Service = service
		r := (&probe{}).run(t.Context(), target)
		if got := string(r.Status) + " " + r.Output; got != want {
			t.Errorf("service %q: %q, want %q", service, got, want)
		}
	}
	target.GRPC = GRPC{TLS: true}
	if r := (&probe{}).run(t.Context(), target); r.Status != message.CheckFailure {
		t.Errorf("TLS with a server without it: %s %q", r.Status, r.Output)
	}
}

// TestServerName checks that https and grpc compare the certificate with the name of the check.
func TestServerName(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // for example.com and 127.0.0.1
	t.Cleanup(s.Close)
	p := &probe{roots: x509.NewCertPool()}
	p.roots.AddCert(s.Certificate())
	remote := grpcTarget(t, health.NewServer(), grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: s.TLS.Certificates})))
	remote.GRPC.TLS = true
	web := at(t, s.Listener.Addr())
	web.HTTP.Protocol = "https"
	for _, c := range []*Target{remote, web} {
		for _, tc := range []struct {
			name string
			skip bool
			want message.CheckStatus
		}{
			{"example.com", false, message.CheckSuccess},
			{"", false, message.CheckSuccess}, // the address
			{"wrong.test", false, message.CheckFailure},
			{"wrong.test", true, message.CheckSuccess},
		} {
			c.ServerName, c.SkipVerify = tc.name, tc.skip
			if r := p.run(t.Context(), c); r.Status != tc.want {
				t.Errorf("%s with the name %q, skip %t: %s %q, want %s", c.Type, tc.name, tc.skip, r.Status, r.Output, tc.want)
			}
			if r := (&probe{}).run(t.Context(), c); !tc.skip && r.Status != message.CheckFailure {
				t.Errorf("%s with the name %q and an unknown authority: %s", c.Type, tc.name, r.Status)
			}
		}
	}
}

// hostile is a health server that attacks its client.
type hostile struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(ctx context.Context) error
}

func (h *hostile) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return nil, h.check(ctx)
}

func TestGRPC_Hostile(t *testing.T) {
	const secret = "text-of-the-job"
	huge := strings.Repeat(secret, 100_000)
	for name, check := range map[string]func(ctx context.Context) error{
		"never answers": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"huge error":    func(context.Context) error { return status.Error(codes.Internal, huge) },
		"huge header": func(ctx context.Context) error {
			return grpc.SendHeader(ctx, metadata.Pairs("x", huge))
		},
		"error of a few lines": func(context.Context) error { return status.Error(codes.Internal, secret+"\n"+secret) },
	} {
		t.Run(name, func(t *testing.T) {
			target := grpcTarget(t, &hostile{check: check})
			target.Timeout = time.Second
			logged := stderrOf(t, func() { bounded(t, target) })
			if strings.Contains(logged, secret) {
				t.Errorf("the log has text of the server: %.300q", logged)
			}
		})
	}
}

// TestGRPC_HostileStream checks servers that are more than a wrong answer: a stream or a message without end, and other
// protocols.
func TestGRPC_HostileStream(t *testing.T) {
	endless := func(_ any, stream grpc.ServerStream) error {
		for {
			if err := stream.SendMsg(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}); err != nil {
				return err
			}
		}
	}
	message := func(_ any, stream grpc.ServerStream) error {
		return stream.SendMsg(&grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", 1<<20)})
	}
	for name, h := range map[string]grpc.StreamHandler{"stream": endless, "message": message} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer(grpc.UnknownServiceHandler(h))
			go s.Serve(l) //nolint:errcheck // it ends with the test
			t.Cleanup(s.Stop)
			target := at(t, l.Addr())
			target.Type, target.Timeout = nomad.ServiceCheckGRPC, time.Second
			bounded(t, target)
		})
	}
	t.Run("not grpc", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go io.Copy(conn, endlessText{}) //nolint:errcheck // until the client closes
			}
		}()
		target := at(t, l.Addr())
		target.Type, target.Timeout = nomad.ServiceCheckGRPC, time.Second
		bounded(t, target)
	})
}

type endlessText struct{}

func (endlessText) Read(b []byte) (int, error) { return copy(b, "HTTP/1.1 200 OK\r\nX: y\r\n"), nil }

// bounded runs a check that must fail in time and with an output that is not too long.
func bounded(t *testing.T, target *Target) {
	t.Helper()
	start := time.Now()
	r := (&probe{}).run(t.Context(), target)
	if r.Status != message.CheckFailure || len(r.Output) > maxOutput+len("nomad: ") || time.Since(start) > 20*time.Second {
		t.Errorf("%s after %v with %d bytes: %.200q", r.Status, time.Since(start), len(r.Output), r.Output)
	}
}
