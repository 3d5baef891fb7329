package cloud_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
)

var quiet = slog.New(slog.DiscardHandler)

// detect runs one detector and returns the facts, nil without any.
func detect(t *testing.T, p cloud.Provider) (*cloud.Facts, error) {
	t.Helper()
	var found *cloud.Facts
	d := cloud.New([]cloud.Provider{p}, func(f cloud.Facts) { found = &f }, quiet)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := d.Run(ctx)
	select {
	case <-d.Tried():
	default:
		t.Errorf("%s: Tried() is open after Run()", p.Name)
	}
	return found, err
}

// service is a metadata service in memory.
type service struct {
	root   string // path of the base address
	values map[string]string
	check  func(w http.ResponseWriter, r *http.Request) bool // replies to a request that it rejects
	facts  cloud.Facts
}

const sessionToken = "AQAEAHh5c2Vzc2lvbi10b2tlbi1mb3ItdGVzdHM="

func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.check != nil && !s.check(w, r) {
		return
	}
	name, ok := strings.CutPrefix(r.URL.RequestURI(), s.root)
	v, found := s.values[name]
	if !ok || !found {
		http.NotFound(w, r)
		return
	}
	io.WriteString(w, v)
}

// needs rejects requests without the header.
func needs(header, value string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(header) != value {
			http.Error(w, "forbidden", http.StatusForbidden)
			return false
		}
		w.Header().Set(header, value)
		return true
	}
}

// sessions issues session tokens and rejects requests without one.
func sessions(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "" {
		io.WriteString(w, sessionToken)
		return false
	}
	if r.Method != http.MethodGet || r.Header.Get("X-aws-ec2-metadata-token") != sessionToken {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return false
	}
	return true
}

// services returns a metadata service of each provider, by fingerprinter.
func services() map[string]service {
	return map[string]service{"env_aws": awsService(), "env_gce": gceService(), "env_azure": azureService(), "env_digitalocean": doService()}
}

func awsService() service {
	return service{root: "/latest/meta-data/", check: sessions, values: map[string]string{
		"instance-id": "i-0b22a22eec53b9321", "ami-id": "ami-0000000000000abcd", "instance-type": "m4.xlarge",
		"instance-life-cycle": "on-demand", "placement/availability-zone": "us-west-2a",
		"hostname": "ip-10-0-0-207.us-west-2.compute.internal", "local-hostname": "ip-10-0-0-207.us-west-2.compute.internal\n",
		"local-ipv4": "10.0.0.207", "mac": "0a:20:d2:42:b3:55", "public-ipv4": "", "user-data": "secret",
	}, facts: cloud.Facts{Links: map[string]string{"aws.ec2": "us-west-2a.i-0b22a22eec53b9321"}, Attributes: map[string]string{
		"unique.platform.aws.instance-id": "i-0b22a22eec53b9321", "platform.aws.ami-id": "ami-0000000000000abcd",
		"platform.aws.instance-type": "m4.xlarge", "platform.aws.instance-life-cycle": "on-demand",
		"platform.aws.placement.availability-zone": "us-west-2a", "unique.platform.aws.local-ipv4": "10.0.0.207",
		"unique.platform.aws.hostname":       "ip-10-0-0-207.us-west-2.compute.internal",
		"unique.platform.aws.local-hostname": "ip-10-0-0-207.us-west-2.compute.internal",
		"unique.platform.aws.mac":            "0a:20:d2:42:b3:55",
	}}}
}

func gceService() service {
	return service{root: "/computeMetadata/v1/instance/", check: needs("Metadata-Flavor", "Google"), values: map[string]string{
		"id": "12345", "hostname": "instance-1.c.project.internal", "cpu-platform": "Intel Ivy Bridge",
		"machine-type": "projects/555555/machineTypes/n1-standard-1", "zone": "projects/555555/zones/us-central1-f",
		"scheduling/automatic-restart": "TRUE", "scheduling/on-host-maintenance": "MIGRATE", "tags": `["abc","def"]`,
		"network-interfaces/?recursive=true": `[{"accessConfigs":[{"externalIp":"104.44.55.66","type":"ONE_TO_ONE_NAT"}],` +
			`"ip":"10.240.0.5","network":"projects/555555/networks/default"}]`,
		"attributes/": "startup-script", "attributes/startup-script": "secret",
	}, facts: cloud.Facts{Links: map[string]string{"gce": "12345"}, Attributes: map[string]string{
		"unique.platform.gce.id": "12345", "unique.platform.gce.hostname": "instance-1.c.project.internal",
		"platform.gce.cpu-platform": "Intel Ivy Bridge", "platform.gce.machine-type": "n1-standard-1", "platform.gce.zone": "us-central1-f",
		"platform.gce.scheduling.automatic-restart": "TRUE", "platform.gce.scheduling.on-host-maintenance": "MIGRATE",
		"platform.gce.tag.abc": "true", "platform.gce.tag.def": "true", "platform.gce.network.default": "true",
		"unique.platform.gce.network.default.ip": "10.240.0.5", "unique.platform.gce.network.default.external-ip.0": "104.44.55.66",
	}}}
}

func azureService() service {
	const query = "?api-version=2019-06-04&format=json"
	return service{root: "/metadata/instance/", check: needs("Metadata", "true"), values: map[string]string{
		"compute" + query: `{"location":"eastus","name":"demo01","resourceGroupName":"tests","tags":"a:secret","vmScaleSetName":"",` +
			`"vmId":"13f56399-bd52-4150-9748-7190aae1ff21","vmSize":"Standard_DS2","zone":"1"}`,
		"network" + query: `{"interface":[{"ipv4":{"ipAddress":[{"privateIpAddress":"10.1.0.4","publicIpAddress":"203.0.113.9"}]},` +
			`"ipv6":{"ipAddress":[]},"macAddress":"000D3AF806EC"}]}`,
	}, facts: cloud.Facts{Links: map[string]string{"azure": "13f56399-bd52-4150-9748-7190aae1ff21"}, Attributes: map[string]string{
		"unique.platform.azure.id": "13f56399-bd52-4150-9748-7190aae1ff21", "unique.platform.azure.name": "demo01",
		"platform.azure.location": "eastus", "platform.azure.resource-group": "tests", "platform.azure.vm-size": "Standard_DS2",
		"platform.azure.zone": "1", "unique.platform.azure.local-ipv4": "10.1.0.4", "unique.platform.azure.public-ipv4": "203.0.113.9",
		"unique.platform.azure.mac": "000D3AF806EC",
	}}}
}

func doService() service {
	return service{root: "/metadata/v1/", values: map[string]string{
		"id": "13345678", "region": "nyc1", "hostname": "demo01", "user-data": "secret",
		"interfaces/private/0/ipv4/address": "10.1.0.4", "interfaces/public/0/ipv4/address": "203.0.113.9",
		"interfaces/public/0/ipv6/address": "2604:A880:0:1::1", "interfaces/public/0/mac": "00:0d:3a:f8:06:ec",
	}, facts: cloud.Facts{Links: map[string]string{"digitalocean": "13345678"}, Attributes: map[string]string{
		"unique.platform.digitalocean.id": "13345678", "platform.digitalocean.region": "nyc1",
		"unique.platform.digitalocean.hostname": "demo01", "unique.platform.digitalocean.private-ipv4": "10.1.0.4",
		"unique.platform.digitalocean.public-ipv4": "203.0.113.9", "unique.platform.digitalocean.public-ipv6": "2604:a880:0:1::1",
		"unique.platform.digitalocean.mac": "00:0d:3a:f8:06:ec",
	}}}
}

// start serves the handler and returns the provider at its address.
func start(t *testing.T, name, root string, h http.Handler) cloud.Provider {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return cloud.Provider{Name: name, URL: srv.URL + root}
}

// Each provider's metadata become exactly the listed attributes and links. Custom metadata are not among them.
func TestFacts(t *testing.T) {
	for name, s := range services() {
		t.Run(name, func(t *testing.T) {
			p := start(t, name, s.root, s)
			p.RetryAttempts, p.RetryInterval = 50, time.Millisecond // a loaded machine may miss the time limit
			found, err := detect(t, p)
			if err != nil || found == nil {
				t.Fatalf("Run() = %v, facts %v", err, found)
			}
			if !maps.Equal(found.Attributes, s.facts.Attributes) || !maps.Equal(found.Links, s.facts.Links) {
				t.Errorf("facts = %v\nwant    %v", *found, s.facts)
			}
		})
	}
}

// Every attempt counts until none remains.
func TestAttempts(t *testing.T) {
	for what, c := range map[string]struct {
		attempts, failures int
		exit               bool
		facts              bool
		err                string
	}{
		"the first fails, none remains":      {attempts: 0, failures: 1},
		"the first fails, the second counts": {attempts: 60, failures: 1, facts: true},
		"without limit":                      {attempts: -1, failures: 5, facts: true},
		"all fail, the agent exits": {attempts: 2, failures: 1 << 30, exit: true,
			err: "fingerprint env_gce (exit_on_failure is set): probe: get http://"},
		"all fail, the agent goes on": {attempts: 2, failures: 1 << 30},
	} {
		t.Run(what, func(t *testing.T) {
			var requests atomic.Int64
			good := gceService()
			p := start(t, "env_gce", good.root, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) <= int64(c.failures) {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				good.ServeHTTP(w, r)
			}))
			p.RetryAttempts, p.RetryInterval, p.ExitOnFailure = c.attempts, time.Millisecond, c.exit
			found, err := detect(t, p)
			if got := ""; err != nil {
				if got = err.Error(); c.err == "" || !strings.HasPrefix(got, c.err) {
					t.Errorf("Run() = %q, want %q", got, c.err)
				}
			} else if c.err != "" {
				t.Errorf("Run() = nil, want %q", c.err)
			}
			if (found != nil) != c.facts {
				t.Errorf("facts = %v, want some: %v", found, c.facts)
			}
			if c.failures == 1<<30 && requests.Load() > 3 {
				t.Errorf("%d requests for 3 attempts", requests.Load())
			}
		})
	}
}

// A detector without attempt limit ends with its context.
func TestEndsWithContext(t *testing.T) {
	p := start(t, "env_aws", "/latest/meta-data/", http.NotFoundHandler())
	p.RetryAttempts = -1
	ctx, cancel := context.WithCancel(t.Context())
	d := cloud.New([]cloud.Provider{p}, func(cloud.Facts) { t.Error("facts of a server without any") }, quiet)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	<-d.Tried()
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("Run() = %v, want %v", err, context.Canceled)
	}
}

func TestCheck(t *testing.T) {
	for what, c := range map[string]struct {
		p    cloud.Provider
		want string
	}{
		"default": {cloud.Provider{Name: "env_aws"}, ""},
		"address": {cloud.Provider{Name: "env_gce", URL: "http://[fd00:ec2::254]:8080/computeMetadata/v1/instance"}, ""},
		"name": {cloud.Provider{Name: "env_x"},
			`unknown cloud fingerprinter "env_x": use one of env_aws, env_azure, env_digitalocean, env_gce`},
		"scheme": {cloud.Provider{Name: "env_aws", URL: "file:///etc/passwd"},
			"AWS_ENV_URL must be an address such as http://169.254.169.254/latest/meta-data/, without user and query"},
		"user": {cloud.Provider{Name: "env_azure", URL: "http://a:b@host/"},
			"AZURE_ENV_URL must be an address such as http://169.254.169.254/metadata/instance/, without user and query"},
		"interval": {cloud.Provider{Name: "env_aws", RetryInterval: -1}, "retry_interval must not be negative"},
	} {
		got := ""
		if err := c.p.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: Check() = %q, want %q", what, got, c.want)
		}
	}
}
