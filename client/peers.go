package client

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
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Time limits of a connection to another node.
const (
	dialNode   = 10 * time.Second
	nodeAnswer = time.Minute // also the wait for the end of the allocation's tasks
)

// peers is the client as the hooks of its allocations see it.
type peers struct{ c *Client }

// Hold protects the data of an allocation of this node from removal until release is called. The channel is closed when
// the allocation has ended. It is nil if the node does not have the allocation; release may be called in any case.
func (p peers) Hold(ctx context.Context, alloc string) (ended <-chan struct{}, release func(), err error) {
	select {
	case <-p.c.allocs.loaded:
	case <-ctx.Done():
		return nil, func() {}, ctx.Err()
	}
	h, release, err := p.c.allocs.hold(alloc)
	if err != nil {
		return nil, func() {}, nil // the node does not have it
	}
	return h.ended, release, nil
}

// TaskOf returns the task of an allocation that has a dynamic uid.
func (p peers) TaskOf(alloc string, uid int) string {
	if !p.c.users.Contains(uid) {
		return ""
	}
	h, err := p.c.allocs.find(alloc)
	if err != nil {
		return ""
	}
	return h.runner.TaskOf(uid)
}

// Call makes an RPC to the servers with the node's token.
func (p peers) Call(ctx context.Context, method string, req, resp any) error {
	return p.c.calls.Call(ctx, method, req, resp)
}

// Snapshot returns the snapshot of an allocation on another node. An error has a status below 500 if another attempt is
// useless.
func (p peers) Snapshot(ctx context.Context, node *nomad.Node, previous, alloc string) (migrate.Remote, error) {
	token, err := p.c.migrateToken(ctx, alloc)
	if err != nil {
		return migrate.Remote{}, err
	}
	target := url.URL{Scheme: "http", Host: node.HTTPAddr, Path: "/v1/client/allocation/" + previous + "/snapshot"}
	if node.TLSEnabled {
		target.Scheme = "https"
	}
	if node.HTTPAddr == "" {
		return migrate.Remote{}, nomad.Errorf(http.StatusBadRequest, "node %s has no HTTP address", node.ID)
	}
	if !node.TLSEnabled && p.c.tls.HTTPS() {
		return migrate.Remote{}, nomad.Errorf(http.StatusBadRequest, "node %s serves HTTP without TLS, but this node requires it: set tls { http = true } there", node.ID)
	}
	return migrate.Remote{URL: target.String(), Token: token, HTTP: nodeHTTP(p.c.tls, p.c.cfg.Region)}, nil
}

// migrateToken asks the servers for the token of the allocation's predecessor.
func (c *Client) migrateToken(ctx context.Context, alloc string) (string, error) {
	req := message.NodeSpecificRequest{NodeID: c.id.ID, SecretID: c.id.Secret(), QueryOptions: c.query()}
	var resp message.NodeClientAllocsResponse
	if err := c.servers.Call(ctx, "Node.GetClientAllocs", &req, &resp); err != nil {
		return "", fmt.Errorf("get the migrate token: %w", err)
	}
	token := resp.MigrateTokens[alloc]
	if token == "" {
		return "", nomad.Errorf(http.StatusNotFound, "the servers give no migrate token: the previous node is gone")
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

// drainWait bounds the wait for the tasks of an allocation whose snapshot is requested.
const drainWait = 30 * time.Second

// ServeSnapshot answers a request for the data of a finished allocation of this node. The token
// is always required.
func (c *Client) ServeSnapshot(w http.ResponseWriter, r *http.Request, alloc string) error {
	token, err := nomad.NewMigrateToken(alloc, c.id.Secret())
	if err != nil || !token.Matches(r.Header.Get(migrate.TokenHeader)) {
		return nomad.Denied("the migrate token is missing or wrong")
	}
	h, release, err := c.allocs.hold(alloc)
	if err != nil {
		return err
	}
	defer release()
	late := time.NewTimer(drainWait)
	defer late.Stop()
	select {
	case <-h.ended:
	case <-r.Context().Done():
		return r.Context().Err()
	case <-late.C:
		return nomad.Errorf(http.StatusConflict, "allocation %s still runs: its data is sent after its end", alloc)
	}
	root, err := safefs.Open(c.cfg.AllocDir)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Sub(alloc)
	if err != nil {
		return err
	}
	defer dir.Close()
	var tasks []string
	if group := h.runner.Group(); group != nil {
		for _, t := range group.Tasks {
			tasks = append(tasks, t.Name)
		}
	}
	known := map[int]string{}
	taskOf := func(uid int) string {
		if _, ok := known[uid]; !ok {
			known[uid] = peers{c}.TaskOf(alloc, uid)
		}
		return known[uid]
	}
	return migrate.Source{Dir: dir, AllocID: alloc, Tasks: tasks, TaskOf: taskOf}.Serve(w, r)
}
