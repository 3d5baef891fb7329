package ticket_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

const (
	node   = "11111111-1111-4111-8111-111111111111"
	alloc  = "22222222-2222-4222-8222-222222222222"
	method = "FileSystem.Logs"
)

// servers holds the keys of several servers. Only the leader has the newest key.
type servers struct {
	mu      sync.Mutex
	any     []jwt.PublicKey
	leader  []jwt.PublicKey
	fetches int
	err     error
}

func (s *servers) keys(_ context.Context, fresh bool) ([]jwt.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	if fresh {
		return s.leader, s.err
	}
	return s.any, s.err
}

func newKey(t *testing.T, id string) jwt.Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k, err := jwt.NewKey(id, private)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// desk is the verifier of a node, with a key of its servers and a clock.
type desk struct {
	*ticket.Verifier
	key     jwt.Key
	servers *servers
	now     time.Time
}

func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{key: newKey(t, "k1"), now: time.Unix(1_800_000_000, 0)}
	d.servers = &servers{any: []jwt.PublicKey{d.key.Public()}, leader: []jwt.PublicKey{d.key.Public()}}
	d.Verifier = ticket.NewVerifier(node, d.servers.keys, func() time.Time { return d.now })
	return d
}

func (d *desk) sign(t *testing.T) string {
	t.Helper()
	raw, err := ticket.Sign(d.key, ticket.Ticket{Node: node, Method: method, Object: alloc, Rights: []string{"alloc-node-exec"},
		Kind: "client", Accessor: "a", Alloc: "x"}, d.now)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestTicketIsGoodOnce(t *testing.T) {
	d := open(t)
	raw := d.sign(t)
	got, err := d.Verify(t.Context(), raw, method, alloc)
	if err != nil || got.Node != node || got.Accessor != "a" || got.Kind != "client" || got.Alloc != "x" {
		t.Fatalf("Verify() = %+v, %v", got, err)
	}
	if !got.Grants("alloc-node-exec") || got.Grants("alloc-exec") {
		t.Errorf("the ticket grants %q", got.Rights)
	}
	for range 2 {
		if _, err := d.Verify(t.Context(), raw, method, alloc); !errors.Is(err, apierror.ErrPermissionDenied) ||
			!strings.Contains(err.Error(), "used before") {
			t.Errorf("a replayed ticket: %v", err)
		}
	}
	d.now = d.now.Add(ticket.TTL + ticket.Leeway + 2*time.Second) // the record of its ID may have expired
	if _, err := d.Verify(t.Context(), raw, method, alloc); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a replayed ticket after its time: %v", err)
	}
}

// part encodes a part of a forged token.
func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestTicketForAnythingElseIsRefused(t *testing.T) {
	d := open(t)
	in := func(after time.Duration) string {
		raw, err := ticket.Sign(d.key, ticket.Ticket{Node: node, Method: method, Object: alloc}, d.now.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	signed := func(typ string, more string) string {
		body := fmt.Sprintf(`{"aud":%q,"iat":%d,"nbf":%d,"exp":%d,"jti":%q,"nomad_ticket":{"method":%q,"object":%q}%s}`,
			node, d.now.Unix(), d.now.Unix(), d.now.Unix()+20, nomad.NewID(), method, alloc, more)
		raw, err := d.key.SignAs(typ, rawJSON(body))
		if err != nil {
			t.Fatal(err)
		}
		return "nomad-ticket:" + raw
	}
	other := newKey(t, "k1") // a key that a node could create, with the ID of the servers' key
	minted, err := ticket.Sign(other, ticket.Ticket{Node: node, Method: method, Object: alloc}, d.now)
	if err != nil {
		t.Fatal(err)
	}
	good := d.sign(t)
	head, rest, _ := strings.Cut(good, ".")
	_, body, _ := strings.Cut(head, ":")
	none := "nomad-ticket:" + part(`{"alg":"none","kid":"k1","typ":"nomad-ticket+jwt"}`) + "." + strings.Split(rest, ".")[0] + "."
	for name, c := range map[string]struct{ raw, method, object string }{
		"another method":       {good, "FileSystem.Stream", alloc},
		"another allocation":   {good, method, node},
		"no allocation":        {good, method, ""},
		"without the prefix":   {strings.TrimPrefix(good, "nomad-ticket:"), method, alloc},
		"an altered body":      {"nomad-ticket:" + body + "." + part(`{"aud":"x"}`) + "." + strings.Split(rest, ".")[1], method, alloc},
		"no signature":         {none, method, alloc},
		"minted by a node":     {minted, method, alloc},
		"a token's type":       {signed("JWT", ""), method, alloc},
		"two audiences":        {signed("nomad-ticket+jwt", `,"aud":"x"`), method, alloc},
		"expired":              {in(-ticket.TTL - ticket.Leeway), method, alloc},
		"not valid yet":        {in(ticket.Leeway + time.Second), method, alloc},
		"a secret ID":          {nomad.NewID(), method, alloc},
		"nothing":              {"", method, alloc},
		"nothing after prefix": {"nomad-ticket:", method, alloc},
	} {
		if got, err := d.Verify(t.Context(), c.raw, c.method, c.object); !errors.Is(err, apierror.ErrPermissionDenied) || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		} else if c.raw != "" && len(c.raw) > 20 && strings.Contains(err.Error(), c.raw) {
			t.Errorf("%s: the error holds the ticket", name)
		}
	}
	elsewhere := ticket.NewVerifier(alloc, d.servers.keys, func() time.Time { return d.now })
	if _, err := elsewhere.Verify(t.Context(), good, method, alloc); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("at another node: %v", err)
	}
	if _, err := d.Verify(t.Context(), good, method, alloc); err != nil { // no refusal marks it as used
		t.Errorf("the ticket itself: %v", err)
	}
	if _, err := d.Verify(t.Context(), signed("nomad-ticket+jwt", ""), method, alloc); err != nil {
		t.Errorf("a ticket as the test writes it: %v", err) // the forged tickets must fail for the named reason only
	}
	if _, _, err := jwt.Parse(strings.TrimPrefix(good, "nomad-ticket:"),
		func(string) (jwt.PublicKey, bool) { return d.key.Public(), true }); !errors.Is(err, jwt.ErrInvalid) {
		t.Errorf("a ticket was accepted as a token: %v", err)
	}
}

// rawJSON is an unmodified body.
type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// A ticket with a long lifetime is refused although the servers signed it.
func TestTicketsAreShort(t *testing.T) {
	d := open(t)
	for name, times := range map[string][3]int64{"an hour": {0, 0, 3600}, "no end": {0, 0, -1_800_000_000},
		"no beginning": {-1_800_000_000, -1_800_000_000, 10}} {
		at := d.now.Unix()
		raw, err := d.key.SignAs("nomad-ticket+jwt",
			rawJSON(fmt.Sprintf(`{"aud":%q,"iat":%d,"nbf":%d,"exp":%d,"jti":%q,"nomad_ticket":{"method":%q,"object":%q}}`,
				node, at+times[0], at+times[1], at+times[2], nomad.NewID(), method, alloc)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Verify(t.Context(), "nomad-ticket:"+raw, method, alloc); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A new key is fetched once, from the leader if another server does not have it. Removed keys expire.
func TestKeysAreFetched(t *testing.T) {
	d := open(t)
	verify := func(key jwt.Key) error {
		raw, err := ticket.Sign(key, ticket.Ticket{Node: node, Method: method, Object: alloc}, d.now)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Verify(t.Context(), raw, method, alloc)
		return err
	}
	for range 3 {
		if err := verify(d.key); err != nil {
			t.Fatal(err)
		}
	}
	if d.servers.fetches != 1 {
		t.Errorf("%d fetches for one key", d.servers.fetches)
	}
	next := newKey(t, "k2")
	d.servers.leader = append(d.servers.leader, next.Public())
	if err := verify(next); err != nil || d.servers.fetches != 2 {
		t.Errorf("a new key: %v after %d fetches", err, d.servers.fetches)
	}
	d.servers.any, d.servers.leader = []jwt.PublicKey{next.Public()}, []jwt.PublicKey{next.Public()}
	d.now = d.now.Add(10 * time.Minute)
	if err := verify(d.key); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a key that was removed: %v", err)
	}
	d.servers.err = errors.New("no servers")
	d.now = d.now.Add(10 * time.Minute)
	if err := verify(next); err == nil || errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("while no server answers: %v", err)
	}
}

// Keys that are rotated at once are all accepted: a ticket of an unknown key waits for the next fetch. Many such tickets
// share it, so that unknown keys cause one fetch per second.
func TestKeysRotatedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Verifier = ticket.NewVerifier(node, d.servers.keys, time.Now)
		sign := func(key jwt.Key) string {
			raw, err := ticket.Sign(key, ticket.Ticket{Node: node, Method: method, Object: alloc}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		verify := func(raw string) error {
			_, err := d.Verify(t.Context(), raw, method, alloc)
			return err
		}
		for i, id := range []string{"k2", "k3", "k4"} {
			key := newKey(t, id)
			d.servers.mu.Lock()
			d.servers.leader = append(d.servers.leader, key.Public())
			d.servers.mu.Unlock()
			if err := verify(sign(key)); err != nil || d.servers.fetches != i+2 {
				t.Errorf("rotation %d: %v after %d fetches", i, err, d.servers.fetches)
			}
		}
		begun, errs := time.Now(), make(chan error)
		for range 100 {
			raw := sign(newKey(t, "unknown"))
			go func() { errs <- verify(raw) }()
		}
		for range 100 {
			if err := <-errs; !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("an unknown key: %v", err)
			}
		}
		if took := time.Since(begun); d.servers.fetches != 5 || took > 2*time.Second {
			t.Errorf("%d fetches for 3 new keys and 100 unknown ones in %v, want 5 within 2s", d.servers.fetches, took)
		}
		// The wait ends with the call.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Verify(ctx, sign(newKey(t, "unknown")), method, alloc); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the call: %v", err)
		}
		time.Sleep(2 * time.Second) // the shared fetch ends
	})
}

// The record of used tickets has a limit: a node with more calls refuses some.
func TestUsedTicketsAreBounded(t *testing.T) {
	d := open(t)
	ticket.Fill(d.Verifier, d.now.Add(ticket.TTL+ticket.Leeway).Unix())
	if _, err := d.Verify(t.Context(), d.sign(t), method, alloc); apierror.HTTPStatus(err) != 429 {
		t.Errorf("one more: %v", err)
	}
	d.now = d.now.Add(ticket.TTL + ticket.Leeway + 2*time.Second)
	if _, err := d.Verify(t.Context(), d.sign(t), method, alloc); err != nil {
		t.Errorf("after their time: %v", err)
	}
}

// Of many concurrent uses only one is accepted.
func TestOneUseOfMany(t *testing.T) {
	d := open(t)
	raw := d.sign(t)
	var mu sync.Mutex
	good := 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := d.Verify(t.Context(), raw, method, alloc); err == nil {
				mu.Lock()
				defer mu.Unlock()
				good++
			}
		})
	}
	wg.Wait()
	if good != 1 {
		t.Errorf("%d uses were accepted", good)
	}
}
