package workloadapi_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	spiffe "github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/client/workloadapi"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/svid"
)

// servers answers the calls of a node with a real issuer.
type servers struct {
	ring   *keyring.Ring
	issuer *svid.Issuer

	mu    sync.Mutex
	index uint64
	moved chan struct{}
	down  bool
	calls map[string]int
}

func newServers(t testing.TB) *servers {
	t.Helper()
	s := &servers{ring: keyring.New(keyring.Config{}), index: 1, moved: make(chan struct{}), calls: map[string]int{}}
	var err error
	if s.issuer, err = svid.New(svid.Config{Ring: s.ring, TrustDomain: "example.org"}); err != nil {
		t.Fatal(err)
	}
	s.root(t, time.Now().Add(-time.Hour))
	return s
}

// root adds an active root key.
func (s *servers) root(t testing.TB, created time.Time) *rootkey.Key {
	t.Helper()
	k, err := s.ring.NewRootKey(t.Context(), created)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ring.Add(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	s.move()
	return k
}

// move reports a change of the root keys.
func (s *servers) move() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *servers) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *servers) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

func (s *servers) Call(ctx context.Context, method string, req, resp any) error {
	s.mu.Lock()
	s.calls[method]++
	down := s.down
	s.mu.Unlock()
	if down {
		return errors.New("no servers")
	}
	subject := svid.Subject{ID: "spiffe://example.org/ns/default/job/web/group/g/task/t", TTL: time.Hour}
	switch req := req.(type) {
	case *message.GenericRequest:
		return s.bundle(ctx, req.MinQueryIndex, resp.(*message.SpiffeBundleResponse))
	case *message.SpiffeX509Request:
		key, err := svid.ReadCSR(req.CSR)
		if err != nil {
			return err
		}
		der, err := s.issuer.SignX509(key, subject, time.Now())
		*resp.(*message.SpiffeX509Response) = message.SpiffeX509Response{ID: subject.ID, Certificates: [][]byte{der}}
		return err
	case *message.SpiffeJWTRequest:
		raw, end, err := s.issuer.SignJWT(subject, req.Audience, time.Now())
		*resp.(*message.SpiffeJWTResponse) = message.SpiffeJWTResponse{ID: subject.ID, JWT: raw, Expires: end}
		return err
	}
	return fmt.Errorf("unknown request %T", req)
}

// bundle is a blocking query.
func (s *servers) bundle(ctx context.Context, after uint64, resp *message.SpiffeBundleResponse) (err error) {
	for {
		s.mu.Lock()
		index, moved := s.index, s.moved
		s.mu.Unlock()
		if index > after {
			resp.TrustDomain, resp.Sequence, resp.Index = "example.org", index, index
			resp.Authorities, err = s.issuer.Authorities()
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inGroup moves this process to a new control group until the test ends.
func inGroup(t testing.TB) *cgroup.Group {
	t.Helper()
	tree, err := cgroup.Detect()
	if err != nil || os.Geteuid() != 0 || tree.V2 == "" {
		t.Skipf("needs root and a version 2 tree of control groups: %v", err)
	}
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	g, err := tree.Create("nomad.slice/share.slice", "workloadapi."+strings.ReplaceAll(t.Name(), "/", "_"), cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Enter(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		home := strings.TrimSpace(strings.TrimPrefix(string(group)[strings.LastIndex(string(group), "0::"):], "0::"))
		if err := os.WriteFile(filepath.Join(tree.V2, home, "cgroup.procs"), []byte(fmt.Sprint(os.Getpid())), 0); err != nil {
			t.Error(err)
		}
		testpace.Succeeds(t, "remove the group", g.Remove)
	})
	return g
}

// serve serves a task's socket until the test ends, and returns its address.
func serve(t testing.TB, s *servers, g *cgroup.Group) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "spiffe") // t.TempDir may be longer than an address
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	bundles := workloadapi.NewBundles(s, "global", log)
	task := &nomad.Task{Name: "t", Spiffe: &nomad.TaskSpiffe{X509: true, JWT: true}}
	srv := &workloadapi.Server{Bundles: bundles, Group: g,
		Task: workloadapi.Task{Alloc: &nomad.Allocation{ID: "a"}, Task: task, Region: "global", RPC: s, Log: log}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := bundles.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := srv.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		os.RemoveAll(dir)
	})
	return "unix://" + path
}

// TestRemovedKey checks that a task gets a new X.509-SVID at once when the root key of its CA is removed,
// and that the verifier of the library accepts each one.
func TestRemovedKey(t *testing.T) {
	s, g := newServers(t), inGroup(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	addr := serve(t, s, g)
	source, err := spiffe.NewX509Source(ctx, spiffe.WithClientOptions(spiffe.WithAddr(addr)))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	issuer := func() string {
		x, err := source.GetX509SVID()
		if err != nil {
			t.Fatal(err)
		}
		return x.Certificates[0].Issuer.SerialNumber
	}
	first := issuer()
	second := s.root(t, time.Now().Add(-30*time.Minute))
	testpace.Within(t, time.Minute, "both CAs are in the bundle", func() bool {
		set, err := spiffe.FetchX509Bundles(ctx, spiffe.WithAddr(addr)) // the source's own method has a data race
		return err == nil && len(set.Bundles()[0].X509Authorities()) == 2
	})
	if got := issuer(); got != first {
		t.Errorf("a new key alone renews the SVID: %s", got)
	}
	s.ring.Remove(first)
	s.move()
	testpace.Within(t, time.Minute, "a new SVID by the other key", func() bool { return issuer() == second.KeyID })
}

// TestMetadata checks that calls without the metadata of the specification are refused.
func TestMetadata(t *testing.T) {
	s, g := newServers(t), inGroup(t)
	conn, err := grpc.NewClient(serve(t, s, g), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	api := workload.NewSpiffeWorkloadAPIClient(conn)
	if _, err := api.FetchJWTSVID(t.Context(), &workload.JWTSVIDRequest{Audience: []string{"a"}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("FetchJWTSVID() = %v", err)
	}
	stream, err := api.FetchX509SVID(t.Context(), &workload.X509SVIDRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("FetchX509SVID() = %v", err)
	}
}

// TestTokens checks which JWT-SVIDs are requested from the servers, and the limits.
func TestTokens(t *testing.T) {
	s, g := newServers(t), inGroup(t)
	c, err := spiffe.New(t.Context(), spiffe.WithAddr(serve(t, s, g)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 100 {
		if _, err := c.FetchJWTSVID(t.Context(), jwtsvid.Params{Audience: "db"}); err != nil {
			t.Fatal(err)
		}
	}
	s.setDown(true)
	if _, err := c.FetchJWTSVID(t.Context(), jwtsvid.Params{Audience: "db"}); err != nil {
		t.Errorf("held token without servers: %v", err)
	}
	if _, err := c.FetchJWTSVID(t.Context(), jwtsvid.Params{Audience: "new"}); status.Code(err) != codes.Unavailable {
		t.Errorf("new token without servers: %v", err)
	}
	s.setDown(false)
	if got := s.count("Spiffe.SignJWT"); got != 2 {
		t.Errorf("%d requests to the servers, want 2", got)
	}
	var codesSeen []codes.Code
	for n := range 200 {
		_, err := c.FetchJWTSVID(t.Context(), jwtsvid.Params{Audience: fmt.Sprint("many", n)})
		codesSeen = append(codesSeen, status.Code(err))
	}
	if !slices.Contains(codesSeen, codes.ResourceExhausted) || s.count("Spiffe.SignJWT") > 190 {
		t.Errorf("200 audiences cause %d requests to the servers", s.count("Spiffe.SignJWT"))
	}
	for name, audience := range map[string][]string{"none": nil, "empty": {""}, "long": {strings.Repeat("x", 600)}, "duplicate": {"a", "a"},
		"many": strings.Split("123456789", "")} {
		p := jwtsvid.Params{}
		if len(audience) > 0 {
			p.Audience, p.ExtraAudiences = audience[0], audience[1:]
		}
		if _, err := c.FetchJWTSVID(t.Context(), p); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkFirstX509 measures a task's first X.509-SVID: connection, attestation and the SVID.
func BenchmarkFirstX509(b *testing.B) {
	addr := serve(b, newServers(b), inGroup(b))
	for b.Loop() {
		c, err := spiffe.New(b.Context(), spiffe.WithAddr(addr))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.FetchX509SVID(b.Context()); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

// BenchmarkStart measures the start of a task's socket until its first X.509-SVID, which is signed
// meanwhile.
func BenchmarkStart(b *testing.B) {
	s, g := newServers(b), inGroup(b)
	for b.Loop() {
		c, err := spiffe.New(b.Context(), spiffe.WithAddr(serve(b, s, g)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.FetchX509SVID(b.Context()); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

// BenchmarkJWT measures a JWT-SVID for an audience that is not held, at most tokenRate per second, and
// one that is held.
func BenchmarkHeldJWT(b *testing.B) {
	c, err := spiffe.New(b.Context(), spiffe.WithAddr(serve(b, newServers(b), inGroup(b))))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if _, err := c.FetchJWTSVID(b.Context(), jwtsvid.Params{Audience: "db"}); err != nil {
			b.Fatal(err)
		}
	}
}
