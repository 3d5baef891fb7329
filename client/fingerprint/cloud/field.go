package cloud

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// maxValue is the length limit of a value.
const maxValue = 256

// field is one value of a metadata service.
type field struct {
	path      string
	attribute string
	parse     func(string) (string, error)
}

// parsed returns the valid value of a text. An empty text is an absent value.
func (f field) parsed(text string) (string, error) {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return "", nil
	}
	v, err := plain(text)
	if err == nil {
		v, err = f.parse(v)
	}
	if err != nil {
		return "", fmt.Errorf("value of %s: %w", f.attribute, err)
	}
	return v, nil
}

// plain accepts printable text.
func plain(text string) (string, error) {
	if len(text) > maxValue {
		return "", fmt.Errorf("longer than %d bytes", maxValue)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", errors.New("not printable text")
	}
	return text, nil
}

// last accepts a resource path and returns its last element.
func last(text string) (string, error) {
	if !strings.Contains(text, "/") {
		return "", errors.New("not a resource path")
	}
	return word(path.Base(text))
}

// hostname matches names of hosts, zones and machine types.
var hostname = pattern.Lazy(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// word accepts letters, digits, periods, hyphens and underscores.
func word(text string) (string, error) { return matched(text, hostname()) }

// matching returns a parser that accepts what the expression matches.
func matching(expr string) func(string) (string, error) {
	re := pattern.Lazy(expr)
	return func(text string) (string, error) { return matched(text, re()) }
}

func matched(text string, re *regexp.Regexp) (string, error) {
	if !re.MatchString(text) {
		return "", fmt.Errorf("does not match %s", re)
	}
	return text, nil
}

// address accepts an IP address.
func address(text string) (string, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return "", errors.New("not an IP address")
	}
	return addr.String(), nil
}

// hardware accepts a hardware address, with or without separators.
func hardware(text string) (string, error) {
	if _, err := net.ParseMAC(text); err == nil {
		return text, nil
	}
	return matched(text, bareHardware())
}

var bareHardware = pattern.Lazy(`^[0-9A-Fa-f]{12}$`)
