package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"

	"github.com/hashicorp/consul-template/dependency"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/render"
)

// The library connects to an address only. So the program listens on a socket of its own, and sends the requests to the
// agent on the inherited connection:
//
//	query of the library ──abstract socket, own process only──▶ handler ──HTTP/2, descriptor 2──▶ readproxy of the agent
//
// The socket has a name of the kernel's choice. A connection of another process is closed. The library of Vault takes a
// function that connects, so its requests do not need a socket: see vaultsocket.go.

// connectConsul returns the clients for the queries of the library.
func connectConsul(agent http.RoundTripper, node string) (*dependency.ClientSet, error) {
	l, err := net.Listen("unix", "")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{Handler: consulHandler(agent, node), ErrorLog: log.New(io.Discard, "", 0)}
	go srv.Serve(ownProcess{l}) //nolint:errcheck // it ends with the program
	clients := dependency.NewClientSet()
	return clients, clients.CreateConsulClient(&dependency.CreateConsulClientInput{Address: "unix://" + l.Addr().String()})
}

// inherited returns the connection of descriptor 2. The file stays open: it is not closed when it is collected.
var inherited = sync.OnceValue(func() *os.File { return os.Stderr })

// agentConn returns the connection to the proxies of the agent.
func agentConn(ctx context.Context) (http.RoundTripper, error) {
	// Another process with the user of the task must not take the connection from this one.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("protect the process: %w", err)
	}
	conn, err := net.FileConn(inherited())
	if err != nil {
		return nil, errors.New("descriptor 2 is not a connection")
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{Protocols: &protocols, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	return t.NewClientConn(ctx, "http", "agent:80")
}

// forward sends requests to a host on the connection to the agent.
func forward(agent http.RoundTripper, host string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", host, host },
		Transport: agent,
		ErrorLog:  log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "the connection to the agent of the node ended", http.StatusBadGateway)
		},
	}
}

// consulHandler sends requests to the agent. It answers the one for the name of the node itself.
func consulHandler(agent http.RoundTripper, node string) http.Handler {
	proxy := forward(agent, render.ConsulHost)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/agent/self" {
			proxy.ServeHTTP(w, r) // not through a ServeMux, which cleans the paths of keys
			return
		}
		if node == "" {
			http.Error(w, "the name of the node in Consul is not known: use node with a name", http.StatusNotFound)
			return
		}
		self := map[string]any{"Config": map[string]any{"NodeName": node}}
		json.NewEncoder(w).Encode(self) //nolint:errcheck // the client has ended
	})
}

// ownProcess is a listener that accepts connections of this process only.
type ownProcess struct{ net.Listener }

// Accept returns the next connection of this process. It closes those of others.
func (l ownProcess) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || isOwn(c) {
			return c, err
		}
		c.Close() // nothing was sent
	}
}

// isOwn reports whether this process has made a connection. The kernel recorded the process at the connect.
func isOwn(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && credErr == nil && int(peer.Pid) == os.Getpid()
}
