package cloud

import (
	"net/http"
	"net/url"
	"testing"
)

// Requests never use a proxy.
func TestNoProxy(t *testing.T) {
	s := newSource(&url.URL{})
	defer s.close()
	if s.client.Transport.(*http.Transport).Proxy != nil {
		t.Error("the transport has a proxy")
	}
}
