package dns

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
)

// kind is what a name of a domain stands for.
type kind int

const (
	kindNone    kind = iota // not a name of the domain
	kindApex                // the domain itself
	kindEmpty               // a name that only has names below it
	kindService             // a service
	kindAddr                // an address
)

// target is what a name asks for.
type target struct {
	kind         kind
	service, tag string
	namespace    string // "" without a label
	datacenter   string // "" without a label
	addr         netip.Addr
}

// Labels between the head of a name and the domain.
const (
	labelService    = "service"
	labelAddr       = "addr"
	labelNamespace  = "ns"
	labelDatacenter = "dc"
)

// parse returns what the labels before a domain ask for.
func parse(labels []string) target {
	if len(labels) == 0 {
		return target{kind: kindApex}
	}
	for i := len(labels) - 1; i >= 0; i-- {
		if labels[i] != labelService && labels[i] != labelAddr {
			continue
		}
		t, ok := tail(labels[i+1:])
		if !ok {
			continue
		}
		head := labels[:i]
		switch {
		case len(head) == 0:
			t.kind = kindEmpty
			return t
		case labels[i] == labelService:
			return t.ofService(head)
		case len(head) == 1:
			return t.ofAddr(head[0])
		}
	}
	return target{}
}

// maxName is the maximum length of a name in text, without the dot at its end.
const maxName = 253

// CanAsk reports whether a question can find the instances of a service: those with a tag, unless that is "".
func CanAsk(service, tag string) bool {
	name := strings.TrimPrefix(strings.ToLower(tag)+"."+service, ".")
	labels := append(strings.Split(name, "."), labelService)
	t := parse(labels)
	return t.kind == kindService && t.service == service && strings.EqualFold(t.tag, tag) &&
		len(name)+len("."+labelService+".nomad") <= maxName &&
		!slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 || strings.ContainsFunc(l, isEscaped) })
}

// isEscaped reports whether a character of a name is another one in the text of a question.
func isEscaped(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"'();@\`, c) }

// tail parses the labels of the namespace and the datacenter.
func tail(labels []string) (t target, ok bool) {
	if len(labels) >= 2 && labels[1] == labelNamespace {
		t.namespace, labels = labels[0], labels[2:]
	}
	switch {
	case t.namespace != "" && !isNamespace(t.namespace):
		return t, false // the servers refuse a request with such a namespace, and with it all other names of the request
	case len(labels) == 0:
	case len(labels) == 1, len(labels) == 2 && labels[1] == labelDatacenter:
		t.datacenter = labels[0]
	default:
		return t, false
	}
	return t, true
}

// ofService parses the labels before "service".
func (t target) ofService(head []string) target {
	t.kind = kindService
	last := head[len(head)-1]
	switch {
	case len(head) == 1 && strings.HasPrefix(last, "_"):
		t.kind = kindEmpty // RFC 2782 names are below it
	case len(head) == 2 && strings.HasPrefix(head[0], "_") && strings.HasPrefix(last, "_"):
		t.service = head[0][1:]
		if last != "_tcp" && last != "_udp" {
			t.tag = last[1:]
		}
	default: // a tag may contain dots
		t.service, t.tag = last, strings.Join(head[:len(head)-1], ".")
	}
	if t.kind == kindService && !isLabel(t.service) {
		return target{}
	}
	return t
}

// ofAddr parses the label before "addr".
func (t target) ofAddr(label string) target {
	raw, err := hex.DecodeString(label)
	addr, ok := netip.AddrFromSlice(raw)
	if err != nil || !ok || t.namespace != "" {
		return target{}
	}
	t.kind, t.addr = kindAddr, addr
	return t
}

// addrName returns the name of an address. The datacenter is left out if it cannot be a label.
func addrName(a netip.Addr, datacenter, domain string) string {
	parts := []string{hex.EncodeToString(a.AsSlice()), labelAddr}
	if dc := strings.ToLower(datacenter); isLabel(dc) {
		parts = append(parts, dc)
	}
	return strings.Join(append(parts, domain), ".") + "."
}

// isLabel reports whether text, in lower case, is a label of a host name.
func isLabel(text string) bool {
	return isNamespace(text) && text[0] != '-' && text[len(text)-1] != '-'
}

// isNamespace reports whether a label, in lower case, can be the name of a namespace.
func isNamespace(text string) bool {
	if len(text) == 0 || len(text) > 63 {
		return false
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// isHostName reports whether the address of an instance is a name that a record can have.
func isHostName(text string) bool {
	labels := strings.Split(strings.TrimSuffix(strings.ToLower(text), "."), ".")
	return len(text) <= maxName && !slices.ContainsFunc(labels, func(l string) bool { return !isLabel(strings.ReplaceAll(l, "_", "a")) })
}
