package consul

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/go-sockaddr"

	"github.com/open-nomad/open-nomad/internal/consul"
)

// maxValue limits the length of an attribute.
const maxValue = 256

// link is the name of the node's link.
const link = "consul"

// answer is the answer of /v1/agent/self.
type answer map[string]map[string]any

var errType = errors.New("a value of another type, or too long")

// text returns a string, "" if it is absent.
func (a answer) text(block, key string) (string, error) { return text(a[block][key]) }

func text(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	s, ok := v.(string)
	if !ok || len(s) > maxValue || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", errType
	}
	return s, nil
}

// boolean returns a boolean as text, "" if it is absent.
func (a answer) boolean(block, key string) (string, error) {
	switch v := a[block][key].(type) {
	case nil:
		return "", nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", errType
}

// number returns an integer as text, "" if it is absent.
func (a answer) number(block, key string) (string, error) {
	switch v := a[block][key].(type) {
	case nil:
		return "", nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= math.MaxUint16 {
			return strconv.Itoa(int(v)), nil
		}
	}
	return "", errType
}

// sku returns "ent" for Consul Enterprise, else "oss". The build metadata of the version has it.
func (a answer) sku() (string, error) {
	version, err := a.text("Config", "Version")
	if _, build, _ := strings.Cut(version, "+"); strings.Contains(build, "ent") {
		return "ent", err
	}
	return "oss", err
}

// segment returns the network segment of the agent.
func (a answer) segment() (string, error) {
	tags, _ := a["Member"]["Tags"].(map[string]any)
	return text(tags["segment"])
}

// namespaces returns "true" if the license has namespaces.
func (a answer) namespaces() (string, error) {
	license, _ := a["Stats"]["license"].(map[string]any)
	features, _ := license["features"].(string)
	if strings.Contains(features, "Namespaces") {
		return "true", nil
	}
	return "", nil
}

// partition returns the admin partition, which Consul Enterprise has.
func (a answer) partition() (string, error) {
	if sku, err := a.sku(); err != nil || sku != "ent" {
		return "", err
	}
	p, err := a.text("Config", "Partition")
	if p == "" && err == nil {
		p = "default"
	}
	return p, err
}

// grpc returns the port of gRPC. Since version 1.14 the one for TLS is another.
func (a answer) grpc(tls bool) (string, error) {
	version, err := a.text("Config", "Version")
	if err != nil {
		return "", err
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errX := strconv.Atoi(major)
	y, errY := strconv.Atoi(minor)
	if err := errors.Join(errX, errY); err != nil {
		return "", errType
	}
	if tls && (x > 1 || x == 1 && y >= 14) {
		return a.number("DebugConfig", "GRPCTLSPort")
	}
	return a.number("DebugConfig", "GRPCPort")
}

// dnsAddr returns the first address of DNS that is not on loopback. For an unspecified address it is a private one of
// the machine, or else a public one.
func (a answer) dnsAddr() (string, error) {
	list, _ := a["DebugConfig"]["DNSAddrs"].([]any)
	for _, v := range list {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		u, err := url.Parse(s)
		if err != nil {
			return "", errType
		}
		at, err := netip.ParseAddrPort(u.Host)
		switch {
		case err != nil:
			return "", errType
		case at.Addr().IsUnspecified():
			return machineAddr()
		case !at.Addr().IsLoopback():
			return at.Addr().String(), nil
		}
	}
	return "", nil
}

func machineAddr() (string, error) {
	if ip, err := sockaddr.GetPrivateIP(); err == nil && ip != "" {
		return ip, nil
	}
	return sockaddr.GetPublicIP()
}

// read returns the facts of an answer. Values that do not fit are left out, each with an error.
func read(c *consul.Agent, a answer) (facts Facts, left []error) {
	facts = Facts{Attributes: map[string]string{}, Links: map[string]string{}}
	for name, get := range map[string]func() (string, error){
		"consul.version":         func() (string, error) { return a.text("Config", "Version") },
		"consul.revision":        func() (string, error) { return a.text("Config", "Revision") },
		"consul.datacenter":      func() (string, error) { return a.text("Config", "Datacenter") },
		"consul.server":          func() (string, error) { return a.boolean("Config", "Server") },
		"consul.connect":         func() (string, error) { return a.boolean("DebugConfig", "ConnectEnabled") },
		"consul.dns.port":        func() (string, error) { return a.number("DebugConfig", "DNSPort") },
		"consul.grpc":            func() (string, error) { return a.grpc(c.TLS()) },
		"consul.sku":             a.sku,
		"consul.segment":         a.segment,
		"consul.ft.namespaces":   a.namespaces,
		"consul.partition":       a.partition,
		"unique.consul.name":     func() (string, error) { return a.text("Config", "NodeName") },
		"unique.consul.dns.addr": a.dnsAddr,
	} {
		v, err := get()
		switch name, shown := attribute(c.Name(), name); {
		case err != nil:
			left = append(left, fmt.Errorf("%s: %w", name, err))
		case v != "" && shown:
			facts.Attributes[name] = v
		}
	}
	datacenter, node := facts.Attributes["consul.datacenter"], facts.Attributes["unique.consul.name"]
	if c.Name() == consul.DefaultCluster && datacenter != "" && node != "" {
		facts.Links[link] = datacenter + "." + node
	}
	return facts, left
}

// attribute returns the name of an attribute of a cluster, and whether the cluster has it.
func attribute(cluster, name string) (string, bool) {
	if cluster == consul.DefaultCluster {
		return name, true
	}
	return strings.Replace(name, "consul.", "consul."+cluster+".", 1), name != "unique.consul.name"
}

// MetaDefaults are the metadata of a node with Consul that its operator did not set.
var MetaDefaults = map[string]string{
	"connect.sidecar_image":                           envoyImage,
	"connect.gateway_image":                           envoyImage,
	"connect.log_level":                               "info",
	"connect.proxy_concurrency":                       "1",
	"connect.transparent_proxy.default_uid":           "101",
	"connect.transparent_proxy.default_outbound_port": "15001",
}

const envoyImage = "docker.io/envoyproxy/envoy:v${NOMAD_envoy_version}"
