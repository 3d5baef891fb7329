// Package cloud detects the virtual machine of a cloud provider that a node runs on. It asks the metadata services of
// the providers for the type, zone and addresses of the machine. The results are attributes and links of the node,
// named as in Nomad 2.0.
//
//	probe (200 ms) ──valid ID──▶ read (2 s) ──all values valid──▶ facts
//	   └─────────── any error ──────┴──▶ wait, next attempt ──none remains──▶ no facts
//
// A metadata service is not trusted. A reply is at most 64 KiB, a redirect is an error, and a proxy is never used. One
// invalid value rejects all facts of the provider, because a server that is not a metadata service may reply
// to every request. Custom metadata of the machine is never read: it often contains secrets.
//
// Run owns one goroutine per provider and ends them before it returns. The package stores nothing.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits of one attempt.
const (
	// ProbeLimit is the time limit for the detection of a metadata service. A client waits that long for
	// facts before it registers the node.
	ProbeLimit = 200 * time.Millisecond
	readLimit  = 2 * time.Second
)

// DefaultRetryInterval is the default of Provider.RetryInterval.
const DefaultRetryInterval = 2 * time.Second

// Provider configures the fingerprinter of one provider.
type Provider struct {
	Name string // such as "env_aws"
	URL  string // of the metadata service, "" for the provider's link-local address
	// RetryAttempts is the number of attempts after the first. A negative number means no limit.
	RetryAttempts int
	RetryInterval time.Duration // 0 means DefaultRetryInterval
	// ExitOnFailure makes Run return an error if all attempts fail.
	ExitOnFailure bool
}

// Facts are the attributes and links of a node on a machine of a provider.
type Facts struct {
	Attributes, Links map[string]string
}

// service is the metadata service of one provider.
type service struct {
	name     string
	endpoint string
	env      string // environment variable of the agent that replaces the endpoint
	// identify returns an error unless the service identifies a machine of the provider.
	identify func(ctx context.Context, s *source) error
	read     func(ctx context.Context, s *source) (Facts, error)
}

// services lists the metadata services.
var services = []service{aws, azure, digitalOcean, gce}

// Names returns the names of all fingerprinters, sorted.
func Names() []string {
	var names []string
	for _, s := range services {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}

// URLVariable returns the environment variable of the agent that replaces the address of a provider's metadata
// service, "" for an unknown name.
func URLVariable(name string) string {
	s, _ := find(name)
	return s.env
}

// find returns the metadata service with the name.
func find(name string) (service, bool) {
	i := slices.IndexFunc(services, func(s service) bool { return s.name == name })
	if i < 0 {
		return service{}, false
	}
	return services[i], true
}

// Check returns an error if the configuration of the provider is invalid.
func (p Provider) Check() error {
	_, _, err := p.service()
	return err
}

// service returns the metadata service of the provider and its base address.
func (p Provider) service() (service, *url.URL, error) {
	s, ok := find(p.Name)
	if !ok {
		return s, nil, fmt.Errorf("unknown cloud fingerprinter %q: use one of %s", p.Name, strings.Join(Names(), ", "))
	}
	if p.RetryInterval < 0 {
		return s, nil, errors.New("retry_interval must not be negative")
	}
	text := p.URL
	if text == "" {
		text = s.endpoint
	}
	if !strings.HasSuffix(text, "/") {
		text += "/"
	}
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return s, nil, fmt.Errorf("%s must be an address such as %s, without user and query", s.env, s.endpoint)
	}
	return s, base, nil
}

// Detector detects the provider of the machine.
type Detector struct {
	providers []Provider
	add       func(Facts)
	log       *slog.Logger
	tried     chan struct{}
}

// New returns a detector. It calls add with the facts of each provider, possibly in parallel. The caller of add owns
// the maps.
func New(providers []Provider, add func(Facts), log *slog.Logger) *Detector {
	return &Detector{providers: providers, add: add, log: log, tried: make(chan struct{})}
}

// Tried returns a channel that is closed when the first attempt with every provider is over.
func (d *Detector) Tried() <-chan struct{} { return d.tried }

// Run asks every provider until it has facts of it, or no attempt remains. It returns an error if a provider
// with ExitOnFailure has no facts.
func (d *Detector) Run(ctx context.Context) error {
	var first sync.WaitGroup
	first.Add(len(d.providers))
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range d.providers {
		group.Go(func() error { return d.watch(ctx, p, sync.OnceFunc(first.Done)) })
	}
	first.Wait()
	close(d.tried)
	return group.Wait()
}

// watch makes the attempts with one provider. It calls tried after the first.
func (d *Detector) watch(ctx context.Context, p Provider, tried func()) error {
	defer tried()
	for n := 0; ; n++ {
		facts, err := p.attempt(ctx)
		if err == nil {
			d.log.Info("detected the cloud provider of the node", "fingerprinter", p.Name)
			d.add(facts)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.RetryAttempts >= 0 && n >= p.RetryAttempts {
			return d.fail(p, err)
		}
		d.log.Debug("no metadata service yet", "fingerprinter", p.Name, "err", err)
		tried()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.interval()):
		}
	}
}

// fail handles the failure of the last attempt.
func (d *Detector) fail(p Provider, err error) error {
	if p.ExitOnFailure {
		return fmt.Errorf("fingerprint %s (exit_on_failure is set): %w", p.Name, err)
	}
	level := slog.LevelDebug // not a machine of this provider
	if _, ok := errors.AsType[*readError](err); ok {
		level = slog.LevelWarn
	}
	d.log.Log(context.Background(), level, "no facts of the metadata service", "fingerprinter", p.Name, "err", err)
	return nil
}

func (p Provider) interval() time.Duration {
	if p.RetryInterval == 0 {
		return DefaultRetryInterval
	}
	return p.RetryInterval
}

// readError is an error after the service has identified a machine of the provider.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// attempt detects the metadata service and reads its facts.
func (p Provider) attempt(ctx context.Context) (Facts, error) {
	svc, base, err := p.service()
	if err != nil {
		return Facts{}, err
	}
	s := newSource(base)
	defer s.close()
	probe, cancel := context.WithTimeout(ctx, ProbeLimit)
	defer cancel()
	if err := svc.identify(probe, s); err != nil {
		return Facts{}, fmt.Errorf("probe: %w", err)
	}
	ctx, cancel = context.WithTimeout(ctx, readLimit)
	defer cancel()
	facts, err := svc.read(ctx, s)
	if err != nil {
		return Facts{}, &readError{fmt.Errorf("read metadata: %w", err)}
	}
	return facts, nil
}
