package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hashicorp/consul-template/dependency"
	"github.com/hashicorp/consul-template/template"
	consulapi "github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/render"
)

// maxConsulQueries is the maximum number of queries to Consul at the same time. With maxVaultQueries, it is below the limit
// of the connection, MaxRequests of internal/readproxy, where a query that has ended here can still run.
const maxConsulQueries = 48

// consulReader reads data of Consul with the queries of consul-template. The functions of the library make the queries,
// and get their results from its brain.
type consulReader struct {
	queries
	req     *render.Request
	clients *dependency.ClientSet
	brain   *template.Brain
	made    map[key]dependency.Dependency // the queries that templates have made; run owns the map
}

func newConsulReader(req *render.Request, agent http.RoundTripper) (*consulReader, error) {
	clients, err := connectConsul(agent, req.Consul.Node)
	if err != nil {
		return nil, fmt.Errorf("connect to the agent for reads from Consul: %w", err)
	}
	return &consulReader{queries: newQueries(maxConsulQueries), req: req, clients: clients, brain: template.NewBrain(),
		made: map[key]dependency.Dependency{}}, nil
}

// record sets the data that an evaluation has used.
func (c *consulReader) record(it *item, out *template.ExecuteResult) {
	for _, d := range out.Used.List() {
		it.use(c.keyOf(d))
	}
	for _, d := range out.Missing.List() {
		it.lacks(c.keyOf(d))
	}
}

// keyOf returns the key of a query. The first query with a name stays.
func (c *consulReader) keyOf(d dependency.Dependency) key {
	k := key{kind: remote, path: d.String()}
	if c.made[k] == nil {
		c.made[k] = d
	}
	return k
}

// remember makes a result available to the functions. forget removes it.
func (c *consulReader) remember(k key, v any) { c.brain.Remember(c.made[k], v) }

func (c *consulReader) forget(k key) {
	c.brain.Forget(c.made[k])
	delete(c.made, k)
}

// source returns the source of the data of a query. A query that waits for Consul does so also after ctx has ended.
func (c *consulReader) source(k key) source {
	d := c.made[k]
	return func(ctx context.Context, index uint64) (datum, uint64, error) {
		if err := c.enter(ctx); err != nil {
			return datum{}, 0, err
		}
		defer c.leave()
		o := dependency.QueryOptions{WaitIndex: index, WaitTime: c.wait(c.req.BlockQueryWait), AllowStale: c.req.MaxStale > 0}
		v, meta, err := c.query(d, o)
		if err == nil && o.AllowStale && meta.LastContact > c.req.MaxStale {
			o.AllowStale = false
			v, meta, err = c.query(d, o)
		}
		if err != nil {
			return datum{}, 0, err
		}
		return datum{content: content{remote: v, absent: v == nil && meta.BlockOnNil}}, max(meta.LastIndex, 1), nil
	}
}

// errAnswer omits the answer, which can contain values.
var errAnswer = fmt.Errorf("the answer of Consul is incomplete, malformed or larger than %d MiB", render.MaxConsulAnswer>>20)

// query makes a request. The queries of the library panic if an answer has null in the place of an object.
func (c *consulReader) query(d dependency.Dependency, o dependency.QueryOptions) (v any, meta *dependency.ResponseMetadata, err error) {
	defer func() {
		if recover() != nil {
			err = errAnswer
		}
	}()
	v, meta, err = d.Fetch(c.clients, &o)
	var status consulapi.StatusError
	switch {
	case errors.As(err, &status):
		return nil, nil, errors.New(oneLine([]byte(status.Body)))
	case err != nil || meta == nil:
		return nil, nil, errAnswer
	}
	return v, meta, nil
}

// pairOfConsul is keyExistsGet. The index of the pair is not set.
func (e *engine) pairOfConsul(arg string) (*existingPair, error) {
	out := &existingPair{}
	if arg == "" {
		return out, nil
	}
	d, err := dependency.NewKVGetQuery(arg)
	if err != nil {
		return nil, err
	}
	k := e.consul.keyOf(d)
	e.evaluated.use(k)
	v, ok := e.consul.brain.Recall(d)
	if !ok {
		e.evaluated.lacks(k)
	}
	if value, is := v.(string); is {
		name := dependency.KVGetQueryRe.FindStringSubmatch(arg)[dependency.KVGetQueryRe.SubexpIndex("key")]
		*out = existingPair{KeyPair: dependency.KeyPair{Path: name, Key: name, Value: value}, Exists: true}
	}
	return out, nil
}
