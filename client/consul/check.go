package consul

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/dialguard"
	"github.com/open-nomad/open-nomad/nomad"
)

// ttlSlack is added to the interval of a script check: Consul makes the check critical if no result arrives in time.
const ttlSlack = 31 * time.Second

// check returns a check of a service.
func check(w *service.Workload, s *nomad.Service, c *nomad.ServiceCheck) (*api.AgentServiceCheck, error) {
	expand := w.Env.Expand
	out := &api.AgentServiceCheck{
		CheckID: CheckID(w, s, c), Name: CheckName(w, s, c), Interval: c.Interval.String(), Timeout: c.Timeout.String(),
		Status: expand(c.InitialStatus), SuccessBeforePassing: c.SuccessBeforePassing,
		FailuresBeforeWarning: c.FailuresBeforeWarning, FailuresBeforeCritical: c.FailuresBeforeCritical,
	}
	kind := strings.ToLower(expand(c.Type))
	if kind == nomad.ServiceCheckScript {
		out.Interval, out.TTL = "", (c.Interval + ttlSlack).String()
		return out, nil
	}
	addr, err := checkAddress(w, s, c)
	if err != nil {
		return nil, fmt.Errorf("error getting address for check %q: %w", out.Name, err)
	}
	switch kind {
	case nomad.ServiceCheckHTTP:
		out.Header, out.Method, out.Body = Header(w, c), expand(c.Method), c.Body
		out.TLSSkipVerify, out.TLSServerName = c.TLSSkipVerify, c.TLSServerName
		out.HTTP, err = checkURL(expand(c.Protocol), addr, expand(c.Path))
	case nomad.ServiceCheckTCP:
		out.TCP = addr
	case nomad.ServiceCheckGRPC:
		out.GRPC, out.GRPCUseTLS = addr+"/"+expand(c.GRPCService), c.GRPCUseTLS
		out.TLSSkipVerify, out.TLSServerName = c.TLSSkipVerify, c.TLSServerName
	default:
		err = fmt.Errorf("unknown type %q", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("check %q: %w", out.Name, err)
	}
	return out, nil
}

// checkAddress returns the address that Consul checks. Without a host it is the host of Consul's agent.
func checkAddress(w *service.Workload, s *nomad.Service, c *nomad.ServiceCheck) (string, error) {
	ask := w.AskCheck(s, c)
	addr, err := w.Network.Resolve(ask)
	if err != nil {
		return "", err
	}
	if ask.Mode == service.ModeAuto { // the job sets the address
		if err := guard(addr.Host); err != nil {
			return "", err
		}
	}
	if addr.Port == 0 {
		return "", fmt.Errorf("the check has no port: set port in the check or its service")
	}
	return net.JoinHostPort(addr.Host, strconv.Itoa(addr.Port)), nil
}

// guard refuses the metadata services of clouds, as native checks do: Consul would send the request of the job to them, and
// show the answer. Names are not resolved, and Consul follows redirects.
func guard(host string) error {
	var refused *dialguard.Refused
	if err := dialguard.CheckHost(host); errors.As(err, &refused) && !refused.Addr.IsUnspecified() {
		return fmt.Errorf("%s is a %s, to which checks do not connect", refused.Addr, refused.What)
	}
	return nil
}

// checkURL returns the URL of an HTTP check. The path may have a query.
func checkURL(protocol, addr, path string) (string, error) {
	if protocol == "" {
		protocol = "http"
	}
	if protocol != "http" && protocol != "https" {
		return "", fmt.Errorf("invalid protocol %.64q: use http or https", protocol)
	}
	relative, err := url.Parse(path)
	if err != nil || relative.IsAbs() || relative.Host != "" {
		return "", fmt.Errorf("invalid path %.200q", path)
	}
	base := url.URL{Scheme: protocol, Host: addr}
	return base.ResolveReference(relative).String(), nil
}
