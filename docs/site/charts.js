// Draws the charts of a page with the bundled Vega-Lite; colours are those of the page, in light and dark.
function styled({title, hconcat, ...spec}, width) {  // HTML breaks the lines of the title, a chart does not
  const config = spec.config || {}, ink = "currentColor", line = "#8885";
  if (hconcat) Object.assign(spec, width < 600 ? {vconcat: hconcat} : {hconcat});
  else Object.assign(spec, {width: "container", autosize: {type: "fit-x", contains: "padding"}});
  return {...spec, background: "transparent",
    config: {...config, view: {...config.view, stroke: null},
      title: {...config.title, color: ink}, text: {color: ink}, rule: {color: ink},
      axis: {...config.axis, labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line},
      legend: {...config.legend, symbolOpacity: 1, labelColor: ink, titleColor: ink, labelLimit: width - 60, ...(width < 500 && {columns: 1})}}};
}
addEventListener("DOMContentLoaded", async () => {
  for (const place of document.querySelectorAll(".bqrl-chart")) {
    const spec = JSON.parse(place.nextElementSibling.textContent), {text = spec.title, subtitle} = spec.title || "";
    const whole = lines => [].concat(lines ?? "").join(" "), heading = Object.assign(document.createElement("p"), {className: "bqrl-title"});
    heading.append(Object.assign(document.createElement("strong"), {textContent: whole(text)}), document.createElement("br"), whole(subtitle));
    place.before(heading);
    await vegaEmbed(place, styled(spec, place.clientWidth), {actions: false, renderer: "svg", mode: "vega-lite"});
    if (spec.hconcat) place.querySelector("svg").classList.add("side-by-side");
  }
  document.body.dataset.charts = "drawn";
});
