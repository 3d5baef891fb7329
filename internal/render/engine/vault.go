package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul-template/dependency"
	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/render"
)

// maxVaultQueries is the maximum number of requests to Vault at the same time. It is below the limit of the proxy,
// internal/vault/readproxy, where a request that has ended here can still run.
const maxVaultQueries = 16

// vaultReader reads data of Vault with the queries of consul-template. Each read has a new query: one that is used
// twice sleeps between the reads, holds a goroutine that nothing can end, and keeps a wrong version of a key-value
// engine. So the leases are here.
type vaultReader struct {
	queries
	req   *render.Request
	files *files
	agent *inProcess
	made  map[key]*vaultQuery // what templates have asked for. Only run uses the map
	count int                 // of sources
}

// vaultQuery is how a piece of data is read.
type vaultQuery struct {
	query func() (dependency.Dependency, error)
	read  string // the path of a read of a secret, "" for others
	// file is the destination of a template with pkiCert, "" if it has no earlier content. keyed is set if it must have
	// the private key of its certificate.
	file  string
	keyed bool
}

func newVaultReader(req *render.Request, files *files, agent http.RoundTripper) *vaultReader {
	// The queries use them for certificates that they have read. They are valid for the program.
	dependency.SetVaultDefaultLeaseDuration(req.Vault.DefaultLease)
	dependency.SetVaultLeaseRenewalThreshold(useOfLease)
	return &vaultReader{queries: newQueries(maxVaultQueries), req: req, files: files, agent: serveVault(agent),
		made: map[key]*vaultQuery{}}
}

// keyOf returns the key of a query. The name alone is not enough: it has only a part of a query's parameters.
func (v *vaultReader) keyOf(name, path string, data map[string]any, q *vaultQuery) key {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", path)
	for _, k := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(sum, "%q%q", k, data[k])
	}
	k := key{kind: ofVault, path: name, tag: string(sum.Sum(nil))}
	if v.made[k] == nil {
		v.made[k] = q
	}
	return k
}

// source returns the source of the data of a query.
func (v *vaultReader) source(k key) source {
	v.count++
	s := &vaultSource{vaultReader: v, query: *v.made[k], id: strconv.Itoa(v.count)}
	for other, q := range v.made {
		if other != k && q.file == s.query.file {
			s.query.file = "" // the file has several certificates
		}
	}
	return s.next
}

// vaultSource is the source of one piece of data.
type vaultSource struct {
	*vaultReader
	query   vaultQuery
	id      string
	clients *dependency.ClientSet // nil before the first request
	lease   lease
	reads   uint64
}

// next reads the data. With an index, it first waits until the lease of the last read is used up.
func (s *vaultSource) next(ctx context.Context, index uint64) (datum, uint64, error) {
	if index > 0 {
		if err := s.hold(ctx); err != nil {
			return datum{}, 0, err
		}
	}
	value, err := s.read(ctx)
	if err != nil {
		return datum{}, 0, err
	}
	if s.lease, err = leaseOf(value, s.req.Vault.DefaultLease); err != nil {
		return datum{}, 0, err
	}
	s.reads++
	return datum{content: content{remote: value}}, s.reads, nil
}

// read makes a request. The first read of a certificate takes the one that the template has rendered before.
func (s *vaultSource) read(ctx context.Context) (any, error) {
	if s.query.file != "" && s.reads == 0 {
		if cert, ok := s.kept(); ok {
			return cert, nil
		}
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if s.clients == nil {
		clients, err := s.agent.clients(s.req.Vault.Namespace, s.id)
		if err != nil {
			return nil, errors.New("create the client for requests to Vault")
		}
		s.clients = clients
	}
	q, err := s.query.query()
	if err != nil {
		return nil, errVaultPath
	}
	return s.fetch(q)
}

// fetch makes the requests of a query. The queries of the library panic if an answer has null in the place of an
// object, or a text in the place of a number.
func (s *vaultSource) fetch(q dependency.Dependency) (value any, err error) {
	defer func() {
		if recover() != nil {
			value, err = s.fetchPlain()
		}
	}()
	value, _, err = q.Fetch(s.clients, &dependency.QueryOptions{})
	if err != nil {
		return nil, vaultError(err)
	}
	return value, nil
}

// fetchPlain reads a secret that the library cannot read: one of a key-value engine without versions whose fields have
// the names of those of a certificate, an AppRole secret_id or a rotated password, but no numbers.
func (s *vaultSource) fetchPlain() (any, error) {
	path, err := url.Parse(strings.Trim(strings.TrimSpace(s.query.read), "/"))
	if err != nil || path.Path == "" {
		return nil, errVaultAnswer
	}
	got, err := s.clients.Vault().Logical().ReadWithData(path.Path, path.Query())
	switch {
	case err != nil:
		return nil, vaultError(err)
	case got == nil || got.LeaseID != "" || got.Auth != nil || !noNumbers(got.Data):
		return nil, errVaultAnswer
	}
	return &dependency.Secret{
		RequestID: got.RequestID, LeaseDuration: got.LeaseDuration, Data: got.Data, Warnings: got.Warnings,
	}, nil
}

// errVaultAnswer omits the answer, which can contain values.
var errVaultAnswer = errors.New("the answer of Vault is incomplete, malformed or too large, " +
	"or its certificate has almost expired")

// errVaultAbsent is the error for status 404 outside of reads.
var errVaultAbsent = errors.New("nothing exists at this path of Vault: " +
	"check the name of the secrets engine and the path")

// vaultError returns an error without the answer of Vault. The texts of errors of a status are those of the agent's
// proxy.
func vaultError(err error) error {
	const absent = "no secret exists at "
	var status *api.ResponseError
	switch {
	case errors.As(err, &status) && len(status.Errors) > 0:
		return errors.New(oneLine([]byte(status.Errors[0])))
	case errors.As(err, &status):
		return errVaultAbsent
	}
	if _, path, ok := strings.Cut(err.Error(), absent); ok { // the library has no type for it
		return errors.New(absent + oneLine([]byte(path)))
	}
	return errVaultAnswer
}

// hold waits until the data must be read again. Meanwhile it renews the lease.
func (s *vaultSource) hold(ctx context.Context) error {
	for failures := 0; s.lease.renewable(); {
		at := s.lease.renewAt()
		if failures > 0 {
			at = time.Now().Add(delay(s.req.Vault.Retry, failures))
		}
		if end := s.lease.end(); at.After(end) {
			return backoff.Sleep(ctx, time.Until(end))
		}
		if err := backoff.Sleep(ctx, time.Until(at)); err != nil {
			return err
		}
		granted, err := s.renew(ctx)
		switch {
		case err == nil:
			failures, s.lease = 0, s.lease.renewed(granted)
		case ctx.Err() != nil:
			return ctx.Err()
		case hasStatus(err, http.StatusBadRequest, http.StatusNotFound):
			return nil // the lease was revoked
		case hasStatus(err, http.StatusForbidden):
			s.lease = s.lease.final()
		default:
			failures++
		}
	}
	return backoff.Sleep(ctx, time.Until(s.lease.end()))
}

// hasStatus reports whether Vault answered with one of the statuses.
func hasStatus(err error, list ...int) bool {
	var status *api.ResponseError
	return errors.As(err, &status) && slices.Contains(list, status.StatusCode)
}

// renew renews the lease and returns its new duration.
func (s *vaultSource) renew(ctx context.Context) (time.Duration, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	client := s.clients.Vault()
	if s.lease.token != "" {
		answer, err := client.Auth().Token().RenewTokenAsSelfWithContext(ctx, s.lease.token, 0)
		if err != nil || answer == nil || answer.Auth == nil {
			return 0, err
		}
		return seconds(answer.Auth.LeaseDuration), nil
	}
	answer, err := client.Sys().RenewWithContext(ctx, s.lease.id, 0)
	if err != nil || answer == nil {
		return 0, err
	}
	return seconds(answer.LeaseDuration), nil
}

// jitter returns a random factor around 1, so that many tasks do not send requests at the same time.
func jitter(spread float64) float64 { return 1 + spread*(2*rand.Float64()-1) }
