package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ErrNoNamespace means that there is no network namespace at a path.
var ErrNoNamespace = errors.New("not a network namespace")

// Addresses returns the addresses of an interface in the namespace at path. The error wraps ErrNoNamespace if there is
// none.
func Addresses(path, name string) ([]netip.Addr, error) {
	var out []netip.Addr
	err := Inside(path, func() error {
		ifc, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		addrs, err := ifc.Addrs()
		if err != nil {
			return fmt.Errorf("addresses of %s: %w", name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, p.Addr())
			}
		}
		return nil
	})
	return out, err
}
