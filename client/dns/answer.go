package dns

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// Limits of the records of one answer. More do not fit.
const (
	maxRecordsUDP = 64
	maxRecordsTCP = 4096
	lookupTimeout = 3 * time.Second
)

// Times of a SOA record that nobody uses: there are no zone transfers.
const (
	soaRefresh = 3600
	soaRetry   = 600
	soaExpire  = 86400
)

// answer is an answer in the making.
type answer struct {
	*handler
	who      caller
	question miekg.Question
	domain   string
	resp     *miekg.Msg
}

// fill answers a name of the domain.
func (a *answer) fill(labels []string) {
	t := parse(labels)
	if t.kind == kindNone && len(labels) <= 2 && strings.EqualFold(labels[0], a.cfg.Datacenter) {
		t.kind = kindEmpty // names of the datacenter are below it
	}
	switch {
	case t.kind == kindNone:
		a.absent()
	case a.question.Qtype == miekg.TypeANY:
		a.add(&miekg.HINFO{Hdr: a.header(a.question.Name, miekg.TypeHINFO), Cpu: "RFC8482"})
	case t.kind == kindApex:
		a.apex()
	case t.kind == kindAddr:
		a.addrs([]netip.Addr{t.addr})
	case t.kind == kindService:
		a.service(&t)
	}
	if len(a.resp.Answer) == 0 && a.resp.Rcode == miekg.RcodeSuccess {
		a.resp.Ns = []miekg.RR{a.soa()}
	}
}

// absent answers that the name does not exist.
func (a *answer) absent() {
	a.resp.Rcode = miekg.RcodeNameError
	a.resp.Ns = []miekg.RR{a.soa()}
}

func (a *answer) add(r miekg.RR) { a.resp.Answer = append(a.resp.Answer, r) }

func (a *answer) header(name string, kind uint16) miekg.RR_Header {
	return miekg.RR_Header{Name: name, Rrtype: kind, Class: miekg.ClassINET, Ttl: uint32(a.cfg.TTL / time.Second)}
}

// apex answers the domain itself.
func (a *answer) apex() {
	switch a.question.Qtype {
	case miekg.TypeSOA:
		a.add(a.soa())
	case miekg.TypeNS:
		a.add(&miekg.NS{Hdr: a.header(a.domain+".", miekg.TypeNS), Ns: a.server()})
	}
}

// server returns the name of this server: that of the address at which it was asked.
func (a *answer) server() string { return addrName(a.local.Addr(), a.cfg.Datacenter, a.domain) }

// soa returns the SOA record of the domain. Its minimum is the TTL of negative answers.
func (a *answer) soa() miekg.RR {
	hdr := a.header(a.domain+".", miekg.TypeSOA)
	return &miekg.SOA{Hdr: hdr, Ns: a.server(), Mbox: "hostmaster." + a.domain + ".", Serial: 1,
		Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: hdr.Ttl}
}

// service answers a question for a service.
func (a *answer) service(t *target) {
	namespace, ok := a.who.selects(t.namespace)
	if !ok {
		a.resp.Rcode, a.resp.Authoritative = miekg.RcodeRefused, false
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, lookupTimeout)
	defer cancel()
	all, err := a.cfg.Catalogue.Instances(ctx, namespace, t.service)
	if err != nil {
		a.resp.Rcode, a.resp.Authoritative = miekg.RcodeServerFailure, false
		return
	}
	named, usable := a.choose(all, t)
	if named == 0 {
		a.absent()
		return
	}
	switch a.question.Qtype {
	case miekg.TypeSRV:
		a.srv(a.cut(usable))
	case miekg.TypeA, miekg.TypeAAAA, miekg.TypeCNAME:
		a.hosts(usable)
	}
}

// choose returns the number of instances with the name, and those that clients should use: not critical, the ones of
// this node first, then those of the same datacenter. Each part is in random order.
func (a *answer) choose(all []*catalog.Instance, t *target) (named int, usable []*catalog.Instance) {
	var parts [3][]*catalog.Instance
	for _, i := range all {
		if t.datacenter != "" && !strings.EqualFold(i.Datacenter, t.datacenter) {
			continue
		}
		if t.tag != "" && !slices.ContainsFunc(i.Tags, func(tag string) bool { return strings.EqualFold(tag, t.tag) }) {
			continue
		}
		named++
		if i.Health() == catalog.Critical || a.cfg.OnlyPassing && i.Health() != catalog.Passing {
			continue
		}
		part := 2
		switch {
		case i.NodeID == a.cfg.NodeID:
			part = 0
		case i.Datacenter == a.cfg.Datacenter:
			part = 1
		}
		parts[part] = append(parts[part], i)
	}
	for _, part := range parts {
		rand.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		usable = append(usable, part...)
	}
	return named, usable
}

// limit returns the maximum number of records of the answer.
func (a *answer) limit() int {
	if a.tcp {
		return maxRecordsTCP
	}
	return maxRecordsUDP
}

// cut removes what certainly does not fit into the answer.
func (a *answer) cut(all []*catalog.Instance) []*catalog.Instance {
	if limit := a.limit(); len(all) > limit {
		a.resp.Truncated = !a.tcp
		all = all[:limit]
	}
	return all
}

// address returns the address of an instance.
func address(i *catalog.Instance) string { return cmp.Or(i.Address, i.NodeAddress) }

// hosts answers with the addresses of instances. If all are host names, the answer is an alias for the first one: an
// alias must be the only record of its name.
func (a *answer) hosts(all []*catalog.Instance) {
	var addrs []netip.Addr
	var alias string
	seen := map[netip.Addr]bool{}
	for _, i := range all {
		text := address(i)
		addr, err := netip.ParseAddr(text)
		switch addr = addr.Unmap().WithZone(""); {
		case err == nil && !seen[addr]:
			seen[addr] = true
			addrs = append(addrs, addr)
		case err != nil && alias == "" && isHostName(text):
			alias = miekg.Fqdn(text)
		}
	}
	if len(addrs) == 0 && alias != "" {
		a.alias(alias)
		return
	}
	a.addrs(addrs)
}

// addrs answers with the addresses of the family that was asked for.
func (a *answer) addrs(all []netip.Addr) {
	limit := a.limit()
	for _, addr := range all {
		r := a.record(a.question.Name, addr)
		if r.Header().Rrtype != a.question.Qtype {
			continue
		}
		if len(a.resp.Answer) >= limit {
			a.resp.Truncated = !a.tcp
			return
		}
		a.add(r)
	}
}

// record returns the A or AAAA record of an address.
func (a *answer) record(name string, addr netip.Addr) miekg.RR {
	if addr.Is4() {
		return &miekg.A{Hdr: a.header(name, miekg.TypeA), A: addr.AsSlice()}
	}
	return &miekg.AAAA{Hdr: a.header(name, miekg.TypeAAAA), AAAA: addr.AsSlice()}
}

// alias answers with a CNAME record, and with what the recursors answer for its target: a stub resolver asks only once.
func (a *answer) alias(name string) {
	a.add(&miekg.CNAME{Hdr: a.header(a.question.Name, miekg.TypeCNAME), Target: name})
	if a.question.Qtype == miekg.TypeCNAME {
		return
	}
	if _, _, own := a.split(name); own {
		return // resolved by a question of the client; a name of ours may be an alias for itself
	}
	ask := new(miekg.Msg).SetQuestion(name, a.question.Qtype)
	if resp := a.recurse(a.who, ask); resp.Rcode == miekg.RcodeSuccess {
		a.resp.Answer = append(a.resp.Answer, resp.Answer...)
	}
}

// srv answers with the ports of instances, and their addresses as additional records.
func (a *answer) srv(all []*catalog.Instance) {
	type place struct {
		target string
		port   int
	}
	ports, targets := map[place]bool{}, map[string]bool{}
	for _, i := range all {
		if i.Port <= 0 || i.Port > 65535 {
			continue
		}
		text := address(i)
		addr, err := netip.ParseAddr(text)
		name := miekg.Fqdn(text)
		if addr = addr.Unmap().WithZone(""); err == nil {
			name = addrName(addr, i.Datacenter, a.domain)
		} else if !isHostName(text) {
			continue
		}
		if ports[place{name, i.Port}] {
			continue
		}
		ports[place{name, i.Port}] = true
		a.add(&miekg.SRV{Hdr: a.header(a.question.Name, miekg.TypeSRV), Priority: 1, Weight: weight(i),
			Port: uint16(i.Port), Target: name})
		if err == nil && !targets[name] {
			targets[name] = true
			a.resp.Extra = append(a.resp.Extra, a.record(name, addr))
		}
	}
}

// weight returns the weight of an instance by its health.
func weight(i *catalog.Instance) uint16 {
	if i.Weights == nil {
		return 1
	}
	w := i.Weights.Passing
	if i.Health() == catalog.Warning {
		w = i.Weights.Warning
	}
	return uint16(min(max(w, 0), 65535))
}
