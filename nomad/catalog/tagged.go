package catalog

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// MaxHost is the maximum size of an address in bytes. It is that of a DNS name.
const MaxHost = 255

// ParseTagged parses "<host>:<port>", or an IP address, which gets the port of the service.
func ParseTagged(text string, port int) (TaggedAddress, error) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return TaggedAddress{}, fmt.Errorf("error parsing address %.260q: not an IP address, nor a host with a port", text)
		}
		return TaggedAddress{Address: ip.String(), Port: port}, CheckSpecific(text)
	}
	if !validHost(host) {
		return TaggedAddress{}, fmt.Errorf("error parsing address %.260q: the host must be an IP address or a DNS name", text)
	}
	if port, err = strconv.Atoi(number); err != nil || port < 1 || port > 65535 {
		return TaggedAddress{}, fmt.Errorf("error parsing address %.260q: invalid port: %q: want 1 to 65535", text, number)
	}
	return TaggedAddress{Address: host, Port: port}, CheckSpecific(host)
}

// validHost reports whether a host is an IP address or has only characters of DNS names.
func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	for _, c := range []byte(host) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return host != "" && len(host) <= MaxHost
}

// CheckSpecific returns an error for an address that means all addresses. The servers refuse such a registration.
func CheckSpecific(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%s means every address of the host: set address to one that others can reach", host)
	}
	return nil
}
