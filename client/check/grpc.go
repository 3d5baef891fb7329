package check

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits of a gRPC check. An answer of the health protocol has a few bytes.
const (
	maxGRPCMessage = 4 << 10
	maxGRPCHeader  = 16 << 10
	grpcWindow     = 64 << 10 // bytes that the server may send before they are read
)

// GRPC is the call of a gRPC check.
type GRPC struct {
	Service string // "" for the whole server
	TLS     bool
}

// grpc calls the health protocol once, on a connection of its own. Only SERVING is a success.
func (p *probe) grpc(ctx context.Context, t *Target) *message.CheckQueryResult {
	// The name is fixed: gRPC would parse an address of the job, and resolve it, by rules of its own.
	conn, err := grpc.NewClient("passthrough:///check", append(p.security(t),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dial(ctx, t) }),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(),
		grpc.WithMaxHeaderListSize(maxGRPCHeader), grpc.WithReadBufferSize(maxGRPCMessage),
		grpc.WithStaticStreamWindowSize(grpcWindow), grpc.WithStaticConnWindowSize(grpcWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxGRPCMessage)),
		grpc.WithUserAgent("Nomad/"+p.version))...)
	if err != nil {
		return t.failure(err)
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: t.GRPC.Service})
	switch {
	case err != nil && ctx.Err() != nil:
		return t.failure(fmt.Errorf("no response from %s within %s", t.endpoint(), t.Timeout))
	case err != nil:
		return t.failure(errors.New(status.Convert(err).Message()))
	case answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return t.failure(fmt.Errorf("grpc status is %s, want SERVING", answer.GetStatus()))
	}
	return t.result(message.CheckSuccess, 0, "nomad: grpc ok")
}

// loopback is the host of a check whose address is a port only.
const loopback = "127.0.0.1"

// endpoint returns the address of the check for requests and errors.
func (t *Target) endpoint() string {
	return net.JoinHostPort(cmp.Or(t.Address.Host, loopback), strconv.Itoa(t.Address.Port))
}

// security returns the options for TLS or plain text. They also determine the authority of the call.
func (p *probe) security(t *Target) []grpc.DialOption {
	if !t.GRPC.TLS {
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(t.endpoint())}
	}
	settings := p.tls(t)
	settings.ServerName = cmp.Or(settings.ServerName, t.Address.Host, loopback)
	return []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(settings))}
}

// tls returns the TLS settings of a check. Without a name, the host of the address must be in the certificate.
func (p *probe) tls(t *Target) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.SkipVerify, ServerName: t.ServerName, RootCAs: p.roots}
}
