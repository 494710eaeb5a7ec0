package page

import (
	"fmt"
	"math"
	"regexp"
	"testing"
)

// luminance returns the relative luminance of a color, as WCAG 2.2 defines it.
func luminance(color string) float64 {
	var rgb [3]uint8
	if _, err := fmt.Sscanf(color, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
		panic(err)
	}
	sum := 0.0
	for i, share := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(rgb[i]) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += share * c
	}
	return sum
}

// TestContrast compares each color of a text with each background, in both themes.
func TestContrast(t *testing.T) {
	colors := map[string][]string{} // light, dark
	for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(string(style), -1) {
		colors[m[1]] = append(colors[m[1]], m[2])
	}
	for _, pair := range [][2]string{{"text", "page"}, {"text", "card"}, {"dim", "page"}, {"dim", "card"}, {"accent", "page"}, {"accent", "card"}, {"on-accent", "accent"}, {"text", "added"}, {"text", "removed"}} {
		for theme := range 2 {
			if len(colors[pair[0]]) != 2 || len(colors[pair[1]]) != 2 {
				t.Fatalf("%q has the colors %q and %q, want two of each", pair, colors[pair[0]], colors[pair[1]])
			}
			a, b := luminance(colors[pair[0]][theme]), luminance(colors[pair[1]][theme])
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
				t.Errorf("theme %d: %s on %s has a contrast of %.2f, want 4.5", theme, pair[0], pair[1], ratio)
			}
		}
	}
}
