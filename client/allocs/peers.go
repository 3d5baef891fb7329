package allocs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/open-nomad/open-nomad/client/migrate"
	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Time limits of a connection to another node.
const (
	dialNode   = 10 * time.Second
	nodeAnswer = time.Minute // also the wait for the end of the allocation's tasks
)

// Peers are the other allocations of the cluster, for the hooks of an allocation.
type Peers struct {
	Set *Set
	TLS *certs.Store // nil without TLS
}

// Hold protects the data of an allocation of this node from removal until release is called. The channel is closed when
// the allocation has ended. It is nil if the node does not have the allocation; release may be called in any case.
func (p Peers) Hold(ctx context.Context, alloc string) (ended <-chan struct{}, release func(), err error) {
	select {
	case <-p.Set.loaded:
	case <-ctx.Done():
		return nil, func() {}, ctx.Err()
	}
	e, release, err := p.Set.hold(alloc)
	if err != nil {
		return nil, func() {}, nil // the node does not have it
	}
	return e.ended, release, nil
}

// TaskOf returns the task of an allocation that has a dynamic uid.
func (p Peers) TaskOf(alloc string, uid int) string {
	if !p.Set.cfg.Users.Contains(uid) {
		return ""
	}
	e, err := p.Set.Find(alloc)
	if err != nil {
		return ""
	}
	return e.Runner.TaskOf(uid)
}

// Call makes an RPC to the servers with the node's token.
func (p Peers) Call(ctx context.Context, method string, req, resp any) error {
	return p.Set.cfg.Calls.Call(ctx, method, req, resp)
}

// Snapshot returns the snapshot of an allocation on another node. An error has a status below 500 if another attempt is
// useless.
func (p Peers) Snapshot(ctx context.Context, node *nomad.Node, previous, alloc string) (migrate.Remote, error) {
	token, err := p.Set.migrateToken(ctx, alloc)
	if err != nil {
		return migrate.Remote{}, err
	}
	target := url.URL{Scheme: "http", Host: node.HTTPAddr, Path: "/v1/client/allocation/" + previous + "/snapshot"}
	if node.TLSEnabled {
		target.Scheme = "https"
	}
	if node.HTTPAddr == "" {
		return migrate.Remote{}, apierror.Errorf(http.StatusBadRequest, "node %s has no HTTP address", node.ID)
	}
	if !node.TLSEnabled && p.TLS.HTTPS() {
		return migrate.Remote{}, apierror.Errorf(http.StatusBadRequest,
			"node %s serves HTTP without TLS, but this node requires it: set tls { http = true } there", node.ID)
	}
	return migrate.Remote{URL: target.String(), Token: token, HTTP: nodeHTTP(p.TLS, p.Set.cfg.Calls.Region)}, nil
}

// migrateToken asks the servers for the token of the allocation's predecessor.
func (s *Set) migrateToken(ctx context.Context, alloc string) (string, error) {
	req := s.request()
	var resp message.NodeClientAllocsResponse
	if err := s.cfg.Calls.Call(ctx, "Node.GetClientAllocs", &req, &resp); err != nil {
		return "", fmt.Errorf("get the migrate token: %w", err)
	}
	token := resp.MigrateTokens[alloc]
	if token == "" {
		return "", apierror.Errorf(http.StatusNotFound, "the servers give no migrate token: the previous node is gone")
	}
	return token, nil
}

// nodeHTTP returns the client for the HTTP API of other nodes. It follows no redirect, since that
// would pass the token on.
func nodeHTTP(store *certs.Store, region string) *http.Client {
	dialer := &net.Dialer{Timeout: dialNode}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableCompression: true, DisableKeepAlives: true, ResponseHeaderTimeout: nodeAnswer,
			DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				raw, err := dialer.DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				ctx, cancel := context.WithTimeout(ctx, dialNode)
				defer cancel()
				conn, err := store.DialNode(ctx, raw, region)
				if err != nil {
					return nil, errors.Join(err, raw.Close())
				}
				return conn, nil
			},
		},
	}
}
