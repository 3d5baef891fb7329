package ui

import "testing"

// The block ui of the agent sets the label of the cluster and the links to Consul and Vault.
func TestFrameConfig(t *testing.T) {
	open(t)
	h := another(t, "frame", `ui {
  label {
    text             = "<i>blue</i> cluster"
    background_color = "#00305a"
    text_color       = "rgb(250, 250, 250)"
  }
  consul { ui_url = "https://consul.example/ui" }
  vault { ui_url = "https://vault.example/ui" }
}
`)
	p := h.signedIn(t, "400") // without access control, there are no auth methods
	p.show(views[0])
	p.goTo("/ui/settings/tokens", "Appearance")
	got := evaluate[string](p, `(() => {
		const label = document.querySelector('.cluster-label'), style = getComputedStyle(label)
		const links = [...document.querySelectorAll('[aria-labelledby=nav-others] a')].map((a) => a.innerText.trim() + ' ' + a.href)
		return [label.textContent, style.backgroundColor, style.color, ...links].join('\n')
	})()`)
	want := "<i>blue</i> cluster\nrgb(0, 48, 90)\nrgb(250, 250, 250)\nConsul https://consul.example/ui\nVault https://vault.example/ui"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
