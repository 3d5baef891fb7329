package engine

import (
	"context"
	"io/fs"
	"reflect"
	"time"

	"github.com/hashicorp/consul-template/dependency"

	"github.com/open-nomad/open-nomad/internal/render"
)

// datum is the latest value of watched data, and its watcher.
type datum struct {
	content
	known  bool               // a value has been read, possibly that it does not exist
	info   fs.FileInfo        // of the file when it was read
	failed time.Time          // when reads began to fail; zero is not failing
	stop   context.CancelFunc // of the watcher, nil if none runs
}

// content is a value. The kind of the data sets which field is used.
type content struct {
	items     *dependency.NomadVarItems          // of a variable
	list      []*dependency.NomadVarMeta         // of a listing
	text      string                             // of a file
	services  []*dependency.NomadService         // of a service
	catalog   []*dependency.NomadServicesSnippet // of the services of a namespace
	instances []*dependency.HealthService        // of a service, as Consul describes it
	snippets  []*dependency.CatalogSnippet       // of the services of a namespace, as Consul describes them
	pair      *dependency.KeyPair                // of a key
	pairs     []*dependency.KeyPair              // of the keys with a prefix
	remote    any                                // of Consul or Vault: the type is that of the query
	absent    bool                               // of Consul: the data must exist before the template is rendered, and does not
}

// reading is the result of a watcher: a value or an error.
type reading struct {
	key      key
	value    datum // the value fields only
	err      error
	failures int // in a row
}

// readFile reads the value of a file.
func (d *datum) readFile(files *files, name string) error {
	f, info, err := files.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := readAll(f)
	if err != nil {
		return err
	}
	d.known, d.text, d.info = true, string(text), info
	return nil
}

// adopt takes a newer value and reports whether it differs. What a deleted variable had stays for nomadVar and key,
// which wait until it exists again.
func (d *datum) adopt(k key, v *datum) bool {
	if k.kind == variable && v.items == nil && d.items != nil || k.kind == required && v.pair == nil && d.pair != nil || v.absent {
		return false
	}
	same := d.known && reflect.DeepEqual(d.content, v.content)
	d.known, d.content, d.info = true, v.content, v.info
	return !same
}

// watch starts the watchers of the data that templates use, and stops the others.
func (e *engine) watch(ctx context.Context) {
	used := map[key]bool{}
	for _, it := range e.items {
		for _, k := range it.uses {
			used[k] = used[k] || it.needs(k)
		}
	}
	for k, d := range e.data {
		if !used[k] {
			if d.stop != nil {
				d.stop()
				e.queriesOf(k).watchers.Add(-1)
			}
			delete(e.data, k)
			switch k.kind {
			case remote:
				e.consul.forget(k)
			case ofVault:
				delete(e.vault.made, k)
			}
		}
	}
	for k, needed := range used {
		if !needed {
			continue
		}
		d := e.data[k]
		if d == nil {
			d = &datum{}
			e.data[k] = d
		}
		if d.stop != nil {
			continue
		}
		var own context.Context
		own, d.stop = context.WithCancel(ctx)
		e.queriesOf(k).watchers.Add(1)
		switch k.kind {
		case file:
			go e.watchFile(own, k, d.info)
		case remote:
			go e.watchAPI(own, k, e.consul.source(k))
		case ofVault:
			go e.watchAPI(own, k, e.vault.source(k))
		default:
			go e.watchAPI(own, k, func(ctx context.Context, index uint64) (datum, uint64, error) { return e.api.fetch(ctx, k, index) })
		}
	}
}

// queriesOf returns the queries that data belongs to.
func (e *engine) queriesOf(k key) queries {
	switch k.kind {
	case remote:
		return e.consul.queries
	case ofVault:
		return e.vault.queries
	}
	return e.api.queries
}

// retryOf returns how failed reads of data are repeated.
func (e *engine) retryOf(k key) render.Retry {
	switch k.kind {
	case remote:
		return e.req.Consul.Retry
	case ofVault:
		return e.req.Vault.Retry
	}
	return e.req.Retry
}

// outageAfter is how long reads fail before it is reported.
const outageAfter = 3 * time.Second

// take handles the reading of a watcher.
func (e *engine) take(n reading) error {
	d := e.data[n.key]
	if d == nil || d.stop == nil {
		return nil // the watcher has been stopped
	}
	if n.err != nil {
		return e.failure(n, d)
	}
	d.failed = time.Time{}
	if d.adopt(n.key, &n.value) {
		if n.key.kind == remote {
			e.consul.remember(n.key, d.remote)
		}
		now := time.Now()
		for _, it := range e.items {
			if it.needs(n.key) {
				it.changed(now, e.complete)
			}
		}
	}
	return e.recovered()
}

// failure handles a failed read. Before the first complete pass, it ends the program when the
// attempts are used up, unless there is earlier content.
func (e *engine) failure(n reading, d *datum) error {
	if !e.complete && !e.req.Kept && e.retryOf(n.key).Spent(n.failures) {
		return &fault{template: e.user(n.key), text: n.key.String() + ": " + n.err.Error()}
	}
	if d.failed.IsZero() {
		d.failed = time.Now()
	}
	if e.inOutage || time.Since(d.failed) < outageAfter {
		return nil
	}
	e.inOutage = true
	return e.out.Message(render.KindOutage, render.Outage{Name: n.key.String(), Text: n.err.Error()})
}

// recovered ends an outage if nothing fails.
func (e *engine) recovered() error {
	if !e.inOutage {
		return nil
	}
	for _, d := range e.data {
		if !d.failed.IsZero() {
			return nil
		}
	}
	e.inOutage = false
	return e.out.Message(render.KindRecovered, nil)
}

// user returns the index of the first template that uses the data.
func (e *engine) user(k key) int {
	for _, it := range e.items {
		if it.needs(k) {
			return it.index
		}
	}
	return -1
}
