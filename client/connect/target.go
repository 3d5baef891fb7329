package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/consul"
)

// dialTimeout is the time limit of a connection to Consul.
const dialTimeout = 5 * time.Second

// Names of the sockets in alloc/tmp.
const (
	GRPCSocket = "consul_grpc.sock"
	HTTPSocket = "consul_http.sock"
)

// SocketConns is the limit of open connections to one socket. A proxy has one, and a native task one per watch.
const SocketConns = 64

// defaultGRPCPort is the port of Consul's gRPC if it reports none.
const defaultGRPCPort = 8502

// Node is what the hooks of the mesh share on a node.
type Node struct {
	Agent *consul.Agent    // of the cluster that jobs use
	Limit *connlimit.Limit // of the connections to all sockets
	// Attribute returns an attribute of the node as it is now.
	Attribute func(name string) string
}

// Dial opens a connection to a part of the local agent of Consul.
type Dial func(ctx context.Context) (net.Conn, error)

// dial opens a connection to an address. A path is that of a unix socket.
func dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	network := "tcp"
	if path := strings.TrimPrefix(address, "unix://"); strings.HasPrefix(path, "/") {
		network, address = "unix", path
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// DialHTTP opens a connection to the HTTP API. With TLS, the caller uses it on the connection.
func (n *Node) DialHTTP(ctx context.Context) (net.Conn, error) {
	return dial(ctx, httpAddress(n.Agent.Settings()))
}

// DialPlainHTTP opens a connection to the HTTP API on which the caller uses no TLS. It uses the certificate of the agent,
// so it is for programs of the client only.
func (n *Node) DialPlainHTTP(ctx context.Context) (net.Conn, error) {
	s := n.Agent.Settings()
	address := httpAddress(s)
	c, err := dial(ctx, address)
	if err != nil || s.HTTP.Scheme != "https" {
		return c, err
	}
	cfg, err := api.SetupTLSConfig(&s.HTTP.TLSConfig)
	if err != nil {
		c.Close() // nothing was sent
		return nil, err
	}
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(address) // empty for a socket: its configuration has the name
	}
	return tls.Client(c, cfg), nil
}

// httpAddress returns the address of the HTTP API with a port, or the path of its socket.
func httpAddress(s consul.Settings) string {
	host, port := hostOf(s), ""
	switch {
	case host == "":
		return s.HTTP.Address
	case s.HTTP.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	if _, p, err := net.SplitHostPort(s.HTTP.Address); err == nil {
		port = p
	}
	return net.JoinHostPort(host, port)
}

// hostOf returns the host of the HTTP API, "" for a socket.
func hostOf(s consul.Settings) string {
	if strings.HasPrefix(s.HTTP.Address, "/") {
		return ""
	}
	if host, _, err := net.SplitHostPort(s.HTTP.Address); err == nil {
		return host
	}
	return strings.Trim(s.HTTP.Address, "[]")
}

// GRPCAddress returns the address of Consul's gRPC, which configures proxies.
func (n *Node) GRPCAddress() string {
	s := n.Agent.Settings()
	if s.GRPCAddress != "" {
		return s.GRPCAddress
	}
	port, err := strconv.Atoi(n.Attribute("consul.grpc"))
	if err != nil || port <= 0 {
		port = defaultGRPCPort
	}
	return net.JoinHostPort(cmp.Or(hostOf(s), "127.0.0.1"), strconv.Itoa(port))
}

// DialGRPC opens a connection to Consul's gRPC. The proxy uses TLS on it if Consul does.
func (n *Node) DialGRPC(ctx context.Context) (net.Conn, error) { return dial(ctx, n.GRPCAddress()) }
