package urltext

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"http://u:hidden@p:9090/api/v1/read?token=hidden#hidden": "http://p:9090/api/v1/read",
		"https://hidden@p/a%2Fb":                                 "https://p/a%2Fb",
		"http://p":                                               "http://p",
		"http://p?hidden":                                        "http://p",
		"mailto:hidden":                                          "mailto:",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, Of(u))
		require.Equal(t, text, u.String(), "it is not changed")
	}
}

func TestSetting(t *testing.T) {
	require.Empty(t, Setting(""))
	require.Equal(t, "http://p/x", Setting("http://u:hidden@p/x?y=hidden"))
	require.Equal(t, "(not a URL)", Setting("http://u:hid%zz@p"))
	require.Equal(t, "http://p:9090", Setting("p:9090"))
	for _, text := range []string{"hidden", "u:hidden@p", "http:/u:hidden@p", "htp//u:hidden@p/", "p:hidden"} {
		require.Equal(t, "(not a URL)", Setting(text))
	}
}

func ExampleErr() {
	_, err := url.Parse(strings.Replace("http://user:hidden@host:80", "80", "port", 1))
	fmt.Println(Err(fmt.Errorf("wrapped: %w", err)))
	fmt.Println(Err(errors.New("another")))
	// Output:
	// invalid port ":port" after host
	// another
}
