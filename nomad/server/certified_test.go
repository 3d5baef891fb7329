package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// What callers show of themselves.
const (
	noTLS       = "no TLS"
	noCert      = "no certificate"
	otherCA     = "server certificate of another CA"
	noRole      = "certificate of a user"
	clientHere  = "client certificate"
	serverHere  = "server certificate"
	clientThere = "client certificate of the other region"
	serverThere = "server certificate of the other region"
)

var everyCert = []string{noTLS, noCert, otherCA, noRole, clientHere, serverHere, clientThere, serverThere}

const farCert = "server.far.nomad"

// The ways to the leader of the region.
const (
	direct    = "direct"
	forwarded = "forwarded"              // by a follower
	crossing  = "through another region" // by a server of it
)

// connected says who is listened to at all, by the way. It is written by hand from
// compat/wire.md section 3.
var connected = map[string][]string{
	direct:    {clientHere, serverHere, serverThere},
	forwarded: {clientHere, serverHere, serverThere},
	crossing:  {clientThere, serverThere, serverHere},
}

// named says whose certificate the methods ask for that not everyone may call. It is
// written by hand from the column "auth" of compat/rpc.tsv, not taken from the table
// of methods. A certificate that is good enough still needs its token.
var named = map[string][]string{
	"Eval.Ack": {serverHere}, "Eval.Create": {serverHere}, "Eval.Dequeue": {serverHere}, "Eval.Finish": {serverHere}, "Eval.Nack": {serverHere},
	"Eval.Reap": {serverHere}, "Eval.Reblock": {serverHere}, "Eval.Update": {serverHere},
	"Plan.Submit": {serverHere}, "Deployment.Reap": {serverHere}, "NodeIdentity.Session": {serverHere}, "Status.Regroup": {serverHere},
	// The table has the token of management, which everybody has while ACLs are off.
	"Keyring.Update": {serverHere},
	// Of features that are not built yet.
	"Keyring.Get": {serverHere}, "ClientHostVolume.Create": {serverHere}, "ClientHostVolume.Delete": {serverHere}, "ClientHostVolume.Register": {serverHere},
	"ClientCSI.ControllerAttachVolume": {serverHere}, "ClientCSI.ControllerCreateSnapshot": {serverHere}, "ClientCSI.ControllerCreateVolume": {serverHere},
	"ClientCSI.ControllerDeleteSnapshot": {serverHere}, "ClientCSI.ControllerDeleteVolume": {serverHere}, "ClientCSI.ControllerDetachVolume": {serverHere},
	"ClientCSI.ControllerExpandVolume": {serverHere}, "ClientCSI.ControllerListSnapshots": {serverHere}, "ClientCSI.ControllerListVolumes": {serverHere},
	"ClientCSI.ControllerValidateVolume": {serverHere}, "ClientCSI.NodeDetachVolume": {serverHere}, "ClientCSI.NodeExpandVolume": {serverHere},
	"ServiceRegistration.Upsert": {clientHere, serverHere}, "CSIVolume.Claim": {clientHere, serverHere},

	"Alloc.GetAllocs": {clientHere, serverHere}, "Alloc.SignIdentities": {clientHere, serverHere},
	"Node.EmitEvents": {clientHere, serverHere}, "Node.GetClientAllocs": {clientHere, serverHere}, "Node.UpdateAlloc": {clientHere, serverHere},
	"Node.Register": {clientHere, serverHere}, "Node.UpdateStatus": {clientHere, serverHere},
}

// certified is a cluster whose servers speak TLS and ask for names, a server of
// another region, and callers with all kinds of certificates.
type certified struct {
	access
	ca    *testpki.CA
	all   []member
	addrs map[string]string // where each way begins
	pools map[string]*rpc.Pool
}

// over is how somebody with a certificate calls servers; without a name, without TLS.
// Nobody asks for names of servers: all are to be refused, not to refuse.
func over(t *testing.T, ca *testpki.CA, name string) rpc.PoolConfig {
	t.Helper()
	if name == "" {
		return rpc.PoolConfig{Region: "global"}
	}
	cfg := ca.Agent(name).Config()
	cfg.VerifyServerHostname = false
	return rpc.PoolConfig{Region: "global", TLS: testpki.Open(t, cfg)}
}

func newCertified(t *testing.T) *certified {
	t.Helper()
	ca := testpki.New(t)
	speaking := func(c *server.Config) { c.RPCMaxConnsPerClient = -1; asServer(t, ca)(c) }
	x := &certified{ca: ca, all: cluster(t, 3, speaking), pools: map[string]*rpc.Pool{}}
	leader, followers := split(t, x.all)
	there := startMember(t, "far", func(c *server.Config) {
		c.Region, c.BootstrapExpect, c.StartJoin = "far", 1, []string{leader.gossipAddr()}
		speaking(c)
	})
	for _, m := range []member{leader, followers[0], there} {
		eventually(t, func() bool { return len(m.Members()) == 4 })
	}
	x.addrs = map[string]string{direct: leader.RPCAddr(), forwarded: followers[0].RPCAddr(), crossing: there.RPCAddr()}
	x.s, x.far = leader.Server, there.Server
	for who, cfg := range map[string]rpc.PoolConfig{noTLS: over(t, ca, ""), otherCA: over(t, testpki.New(t), serverCert), noRole: over(t, ca, "cli.global.nomad"),
		clientHere: over(t, ca, clientCert), serverHere: over(t, ca, serverCert), clientThere: over(t, ca, "client.far.nomad"), serverThere: over(t, ca, farCert)} {
		cfg.Serve = relayed(t)
		p := rpc.NewPool(cfg)
		t.Cleanup(func() { p.Close() })
		x.pools[who] = p
	}
	x.a = joinBy(t, x.pools[clientHere], leader.RPCAddr())
	register(t, leader.Server, batchJob("b", 1))
	x.alloc = x.a.allocs(1)[0]
	return x
}

// attempt calls a method with a certificate and a token.
func (x *certified) attempt(t *testing.T, m rpc.Method, way, cert, token string, relayed bool) error {
	req := x.request(m)
	switch r := req.(type) {
	case interface{ Query() *nomad.QueryOptions }:
		r.Query().Region, r.Query().AuthToken, r.Query().Forwarded = "global", token, relayed
	case interface{ Write() *nomad.WriteRequest }:
		r.Write().Region, r.Write().AuthToken, r.Write().Forwarded = "global", token, relayed
	}
	return led(t, func(ctx context.Context) error {
		switch {
		case cert == noCert:
			return bareCall(ctx, nil, x.addrs[way], m.Name, req)
		case m.Stream:
			return streamError(func() (*rpc.Stream, error) { return x.pools[cert].Stream(ctx, x.addrs[way], m.Name) }, req)
		}
		return x.pools[cert].Call(ctx, x.addrs[way], m.Name, req, nil)
	})
}

// bareCall calls a method over TLS with certificates that no Pool would have; without
// any it shows none. It knows the protocol of compat/wire.md sections 2 and 5.
func bareCall(ctx context.Context, own []tls.Certificate, addr, method string, req any) error {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	end, _ := ctx.Deadline()
	raw.SetDeadline(end)
	_, err = raw.Write([]byte{0x04})
	conn := tls.Client(raw, &tls.Config{Certificates: own, InsecureSkipVerify: true})
	_, failed := conn.Write([]byte{0x01})
	enc, dec := codec.NewEncoder(conn, nomad.MsgpackHandle), codec.NewDecoder(conn, nomad.MsgpackHandle)
	header := map[string]any{"Seq": uint64(1), "ServiceMethod": method}
	var answer struct{ Error string }
	var body any
	if err = errors.Join(err, failed, enc.Encode(header), enc.Encode(req), dec.Decode(&answer), dec.Decode(&body)); err != nil {
		return fmt.Errorf("%w: %w", errUnheard, err)
	}
	if answer.Error != "" {
		return nomad.ErrorFromText(answer.Error)
	}
	return nil
}

// errUnheard is a connection that ends without an answer.
var errUnheard = errors.New("no answer")

// unheard says whether an error means that no server listened.
func unheard(err error) bool {
	return err != nil && (errors.Is(err, errUnheard) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "rpc error: "))
}

// Every method, called with every kind of certificate, on every way to the leader:
// what is asked for is a certificate of the right role and region and the token of its
// holder, both, wherever the call comes in. The methods of byCertificate need no token at the
// leader.
func TestEveryMethodForEveryCertificate(t *testing.T) {
	x := newCertified(t)
	if err := bareCall(within(t), []tls.Certificate{pairOf(t, x.ca, "client.global.nomad")}, x.addrs[direct], "Status.Ping", &nomad.GenericRequest{}); err != nil {
		t.Fatalf("a call by hand: %v", err)
	}
	table := x.s.Methods()
	for name := range named {
		if !slices.ContainsFunc(table, func(m rpc.Method) bool { return m.Name == name }) {
			t.Errorf("there is no method %s", name)
		}
	}
	for _, m := range table {
		t.Run(m.Name, func(t *testing.T) {
			for _, way := range []string{direct, forwarded, crossing} {
				for _, cert := range everyCert {
					x.check(t, m, way, cert)
				}
			}
		})
	}
}

// check calls one method on one way with one kind of certificate.
func (x *certified) check(t *testing.T, m rpc.Method, way, cert string) {
	t.Helper()
	line := fmt.Sprintf("%s, %s, calls %s", cert, way, m.Name)
	holders, special := named[m.Name]
	token := ""
	switch {
	case special && len(holders) == 1:
		token = ownToken(t, x.s) // stolen; one does not last as long as this test on a slow machine
	case special:
		token = x.a.jwt
	}
	err := x.attempt(t, m, way, cert, token, false)
	if !slices.Contains(connected[way], cert) {
		if !unheard(err) {
			t.Errorf("%s: %v, want no connection", line, err)
		}
		return
	}
	if unheard(err) {
		t.Fatalf("%s: %v, want an answer", line, err)
	}
	denied := errors.Is(err, nomad.ErrPermissionDenied)
	if may := !special || way != crossing && slices.Contains(holders, cert); may == denied {
		t.Errorf("%s: %v", line, err)
	}
	if err != nil && strings.Contains(err.Error(), "internal error") {
		t.Errorf("%s: the handler panicked", line)
	}
	if !special {
		return
	}
	if !denied && m.Name != "Node.Register" {
		// The certificate of a server alone opens a few methods, at the leader only.
		opens := way == direct && slices.Contains(byCertificate, m.Name)
		for _, relayed := range []bool{false, true} {
			if err := x.attempt(t, m, way, cert, "", relayed); errors.Is(err, nomad.ErrPermissionDenied) == opens {
				t.Errorf("%s without a token: %v", line, err)
			}
		}
	}
	if denied {
		err := x.attempt(t, m, way, cert, token, true)
		again := way == crossing && errors.Is(err, nomad.ErrNoRegionPath) // a region passes nothing on twice
		if !again && !errors.Is(err, nomad.ErrPermissionDenied) {
			t.Errorf("%s as if a server had passed it on: %v", line, err)
		}
	}
}

// pairOf is the certificate of an agent with its key.
func pairOf(t *testing.T, ca *testpki.CA, name string) tls.Certificate {
	t.Helper()
	f := ca.Agent(name)
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
